//! The host's side of device `printf` and assertions.
//!
//! Kernels that print get a buffer of packets (`hidden_hostcall_buffer`): a wave takes one from a free stack,
//! fills a header and 64 slots of 8 words, pushes it on a ready stack, rings a doorbell and spins until the
//! host clears the ready flag. The layout is the device library's (`__ockl_hostcall_internal` in ROCm 4 to 6).

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use crate::memory::{Memory, MemoryError};

/// Which of the program's streams a device text goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// `printf`.
    Stdout,
    /// Failed assertions.
    Stderr,
}

type Sink = dyn Fn(Stream, &[u8]) + Send + Sync;

/// What takes the text that kernels print.
#[derive(Clone)]
pub struct Printer(Arc<Sink>);

impl Printer {
    /// Give every piece of text to `sink`, in the order printed.
    pub fn new(sink: impl Fn(Stream, &[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }
}

impl Default for Printer {
    /// C's `stdout`, so that the order with the host program's own `printf` is kept, and file descriptor 2.
    fn default() -> Self {
        Self::new(|stream, text| match stream {
            Stream::Stdout => {
                // SAFETY: the format takes a length and that many readable bytes.
                unsafe {
                    libc::printf(
                        c"%.*s".as_ptr(),
                        libc::c_int::try_from(text.len()).unwrap_or(libc::c_int::MAX),
                        text.as_ptr(),
                    );
                }
            }
            Stream::Stderr => {
                use std::io::Write as _;
                // Nobody is left to be told when stderr is closed.
                let _ = std::io::stderr().write_all(text);
            }
        })
    }
}

impl fmt::Debug for Printer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Printer")
    }
}

/// More packets than any target's device holds waves; a power of two.
const PACKETS: u64 = 8192;
const HEADER_BYTES: u64 = 24;
const PAYLOAD_BYTES: u64 = 64 * 8 * 8;
/// Buffer struct and signal lie before the headers.
const SIGNAL: u64 = 64;
const HEADERS: u64 = 192;
const PAYLOADS: u64 = (HEADERS + PACKETS * HEADER_BYTES).next_multiple_of(64);

const SERVICE_PRINTF: u32 = 2;
const SERVICE_DEVICE_MEMORY: u32 = 3;

/// Longest text of one conversion; the rest is cut off.
const MAX_CONVERSION: usize = 1 << 16;
/// Words of one message at most: a kernel must not eat the host's memory.
const MAX_MESSAGE: usize = 1 << 17;

/// The buffer of one dispatch and the messages that are not complete yet.
pub(crate) struct Hostcall {
    memory: Memory,
    base: u64,
    messages: HashMap<u64, Vec<u64>>,
    next_id: u64,
    printer: Printer,
    /// Whether a kernel asked for memory, which is not supported.
    pub(crate) allocated: bool,
}

impl Hostcall {
    pub(crate) fn new(memory: &Memory, printer: Printer) -> Result<Self, MemoryError> {
        let size = PAYLOADS + PACKETS * PAYLOAD_BYTES;
        let base = memory.alloc(size, "the printf buffer")?;
        let this = Self {
            memory: memory.clone(),
            base,
            messages: HashMap::new(),
            next_id: 0,
            printer,
            allocated: false,
        };
        this.put(0, base + HEADERS)?;
        this.put(8, base + PAYLOADS)?;
        this.put(16, base + SIGNAL)?;
        // The free stack links all packets; a pointer must not be 0, so packet 0 carries a tag.
        this.put(24, PACKETS - 1)?;
        this.put(32, 0)?;
        this.put(40, PACKETS - 1)?;
        for packet in 1..PACKETS {
            let next = if packet == 1 { PACKETS } else { packet - 1 };
            this.put(HEADERS + packet * HEADER_BYTES, next)?;
        }
        // A mailbox address makes the device library send a message when it rings.
        this.put(SIGNAL + 16, base + SIGNAL + 64)?;
        Ok(this)
    }

    /// Device address for `hidden_hostcall_buffer`.
    pub(crate) fn address(&self) -> u64 {
        self.base
    }

    fn put(&self, at: u64, value: u64) -> Result<(), MemoryError> {
        self.memory
            .write_bytes(self.base + at, &value.to_le_bytes())
    }

    fn get(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        match self.memory.read_bytes(self.base + at, &mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => 0,
        }
    }

    /// Serve all packets on the ready stack.
    pub(crate) fn serve(&mut self) -> Result<(), MemoryError> {
        let mut at = self.get(32);
        self.put(32, 0)?;
        // A kernel that scribbles over the buffer may make a loop.
        for _ in 0..PACKETS {
            if at == 0 {
                break;
            }
            let packet = at & (PACKETS - 1);
            let header = HEADERS + packet * HEADER_BYTES;
            let payload = PAYLOADS + packet * PAYLOAD_BYTES;
            at = self.get(header);
            let lanes = self.get(header + 8);
            let service = self.get(header + 16) as u32;
            for lane in (0..64).filter(|lane| lanes >> lane & 1 == 1) {
                let slot = payload + lane * 64;
                let words: [u64; 8] = std::array::from_fn(|i| self.get(slot + 8 * i as u64));
                let answer = match service {
                    SERVICE_PRINTF => self.message(words),
                    SERVICE_DEVICE_MEMORY => {
                        self.allocated = true;
                        0
                    }
                    _ => u64::MAX,
                };
                self.put(slot, answer)?;
            }
            // Clears the ready flag and leaves the service as it is.
            self.put(header + 16, u64::from(service))?;
        }
        Ok(())
    }

    /// One piece of a message: descriptor (bit 0 begins, bit 1 ends, bits 5 to 7 words, from bit 8 the id) and
    /// up to 7 words. Returns the descriptor to go on with, or what `printf` returns.
    fn message(&mut self, words: [u64; 8]) -> u64 {
        let mut descriptor = words[0];
        if descriptor & 1 == 1 {
            self.next_id += 1;
            self.messages.insert(self.next_id, Vec::new());
            descriptor = descriptor & 0xfe | self.next_id << 8;
        }
        let id = descriptor >> 8;
        let Some(message) = self.messages.get_mut(&id) else {
            return u64::MAX;
        };
        let count = (descriptor >> 5 & 7) as usize;
        if message.len() < MAX_MESSAGE {
            message.extend(&words[1..1 + count]);
        }
        if descriptor >> 1 & 1 == 0 {
            return descriptor;
        }
        let message = self.messages.remove(&id).unwrap_or_default();
        let Some((control, rest)) = message.split_first() else {
            return u64::MAX;
        };
        let stream = match control {
            0 => Stream::Stdout,
            1 => Stream::Stderr,
            _ => return u64::MAX,
        };
        let text = format(rest);
        (self.printer.0)(stream, &text);
        text.len() as u64
    }
}

impl Drop for Hostcall {
    fn drop(&mut self) {
        let _ = self.memory.free(self.base);
    }
}

/// The bytes up to the first zero, and the words behind it.
fn string(words: &[u64]) -> (Vec<u8>, &[u64]) {
    let mut bytes = Vec::new();
    for (i, word) in words.iter().enumerate() {
        for byte in word.to_le_bytes() {
            if byte == 0 {
                return (bytes, &words[i + 1..]);
            }
            bytes.push(byte);
        }
    }
    (bytes, &[])
}

/// `printf` of a message: the format string and the arguments, one word each, strings in line.
fn format(words: &[u64]) -> Vec<u8> {
    let (pattern, mut args) = string(words);
    let mut out = Vec::new();
    let mut rest = pattern.as_slice();
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(b"%") {
            out.push(b'%');
            rest = after;
            continue;
        }
        let Some(end) = rest.iter().position(|b| b"diouxXfFeEgGaAcspn".contains(b)) else {
            return out;
        };
        let (conversion, after) = rest.split_at(end + 1);
        rest = after;
        if args.is_empty() {
            // As the real runtime: a conversion without an argument ends the text.
            return out;
        }
        let mut take = || match args.split_first() {
            Some((first, others)) => {
                args = others;
                *first
            }
            None => 0,
        };
        // `*` takes a width or precision from the arguments; written out, the rest is one conversion.
        let mut spec = vec![b'%'];
        for byte in &conversion[..end] {
            match byte {
                b'*' => spec.extend((take() as i32).to_string().bytes()),
                b'L' => {}
                b'-'
                | b'+'
                | b' '
                | b'#'
                | b'0'..=b'9'
                | b'.'
                | b'h'
                | b'l'
                | b'j'
                | b'z'
                | b't' => {
                    spec.push(*byte);
                }
                _ => return out,
            }
        }
        let kind = conversion[end];
        spec.push(kind);
        let Ok(spec) = CString::new(spec) else {
            return out;
        };
        match kind {
            b'n' => {
                take();
            }
            b's' => {
                let (text, others) = string(args);
                args = others;
                if let Ok(text) = CString::new(text) {
                    // SAFETY: `%s` with flags and a C string.
                    print(&mut out, |b, n| unsafe {
                        libc::snprintf(b, n, spec.as_ptr(), text.as_ptr())
                    });
                }
            }
            b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                let value = f64::from_bits(take());
                // SAFETY: a floating conversion, without `L`, and a double.
                print(&mut out, |b, n| unsafe {
                    libc::snprintf(b, n, spec.as_ptr(), value)
                });
            }
            _ => {
                let value = take();
                // SAFETY: an integer, character or pointer conversion and 64 bits, of which it takes its part.
                print(&mut out, |b, n| unsafe {
                    libc::snprintf(b, n, spec.as_ptr(), value)
                });
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

/// Append what a call of `snprintf` writes.
fn print(out: &mut Vec<u8>, call: impl Fn(*mut libc::c_char, usize) -> libc::c_int) {
    let mut buffer = vec![0u8; 512];
    loop {
        let wanted = usize::try_from(call(buffer.as_mut_ptr().cast(), buffer.len())).unwrap_or(0);
        if wanted < buffer.len() || buffer.len() >= MAX_CONVERSION {
            out.extend_from_slice(&buffer[..wanted.min(buffer.len() - 1)]);
            return;
        }
        buffer.resize((wanted + 1).min(MAX_CONVERSION), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(text: &str) -> Vec<u64> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
            .chunks(8)
            .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
            .collect()
    }

    fn run(pattern: &str, args: &[u64]) -> String {
        let mut words = pack(pattern);
        words.extend(args);
        String::from_utf8(format(&words)).unwrap()
    }

    #[test]
    fn conversions() {
        assert_eq!(run("plain 100%%\n", &[]), "plain 100%\n");
        assert_eq!(
            run("%d|%5.2f|%x", &[-7i64 as u64, 2.5f64.to_bits(), 255]),
            "-7| 2.50|ff"
        );
        assert_eq!(
            run("%*d|%lu|%c", &[5, 42, u64::MAX, 65]),
            "   42|18446744073709551615|A"
        );
        let mut args = pack("eleven chars");
        args.push(9);
        assert_eq!(run("<%s> %d", &args), "<eleven chars> 9");
        assert_eq!(run("missing %d", &[]), "missing ");
    }

    proptest! {
        #[test]
        fn any_message_is_fine(words in proptest::collection::vec(any::<u64>(), 0..12)) {
            let _ = format(&words);
        }
        #[test]
        fn any_pattern_is_fine(pattern in "[%a-zA-Z0-9*.# +-]{0,30}", args in proptest::collection::vec(0u64..1000, 0..6)) {
            // Not as text: `%c` may print any byte.
            let mut words = pack(&pattern);
            words.extend(args);
            let _ = format(&words);
        }
    }
}
