//! Lets whole, well-formed messages through. The protocol library ends at the first message that it cannot read; an
//! editor with one bad message should lose that message only.

use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tower_lsp::jsonrpc::{Request, Response};

/// More than any editor sends in one message: a longer one is read past, not kept.
const LONGEST: u64 = 256 << 20;

/// A header line is not longer than this; in longer ones we look for nothing.
const LONGEST_LINE: u64 = 4096;

/// Copy messages from `input` to `output` until one of them ends.
pub async fn filter(input: impl AsyncRead + Unpin, mut output: impl AsyncWrite + Unpin) {
    let mut input = BufReader::new(input);
    while let Ok(Some(length)) = header(&mut input).await {
        if length > LONGEST {
            tracing::warn!("a message of {length} bytes was skipped: that is too long");
            if skip(&mut input, length).await.is_err() {
                break;
            }
            continue;
        }
        let mut body = Vec::new();
        match (&mut input).take(length).read_to_end(&mut body).await {
            Ok(read) if read as u64 == length => {}
            _ => break,
        }
        if let Err(why) = check(&body) {
            tracing::warn!("a message of {length} bytes was left out: {why}");
            continue;
        }
        let head = format!("Content-Length: {length}\r\n\r\n");
        if output.write_all(head.as_bytes()).await.is_err()
            || output.write_all(&body).await.is_err()
        {
            break;
        }
    }
}

async fn skip(input: &mut (impl AsyncRead + Unpin), length: u64) -> std::io::Result<u64> {
    tokio::io::copy(&mut input.take(length), &mut tokio::io::sink()).await
}

/// The length that the next header gives; lines that are no header are passed over. `None` at the end of input.
async fn header(input: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<u64>> {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        if (&mut *input)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
            .await?
            == 0
        {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        match (line.is_empty(), length) {
            (true, Some(length)) => return Ok(Some(length)),
            (true, None) => {}
            (false, _) => {
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().ok();
                }
            }
        }
    }
}

/// Whether the library can read the message.
fn check(body: &[u8]) -> Result<(), serde_json::Error> {
    match serde_json::from_slice::<Request>(body) {
        Ok(_) => Ok(()),
        Err(error) => serde_json::from_slice::<Response>(body)
            .map(drop)
            .map_err(|_| error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut bytes = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
        bytes.extend(body);
        bytes
    }

    fn filtered(input: &[u8]) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut output = Vec::new();
        runtime.block_on(filter(input, &mut output));
        output
    }

    #[test]
    fn good_messages_pass_and_bad_ones_between_them_do_not() {
        let good: [&[u8]; 3] = [
            br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
            br#"{"jsonrpc":"2.0","id":2,"result":null}"#,
            br#"{"jsonrpc":"2.0","method":"exit"}"#,
        ];
        let bad: [&[u8]; 6] = [
            b"",
            b"{\"broken\"",
            b"\xff\xfe\x00\x01",
            b"[]",
            b"null",
            b"{}",
        ];
        let mut input = Vec::new();
        for (n, bad) in bad.iter().enumerate() {
            input.extend(frame(bad));
            input.extend(frame(good[n % good.len()]));
            input.extend(b"garbage without a header\r\n\r\n");
        }
        let expected: Vec<u8> = (0..bad.len())
            .flat_map(|n| frame(good[n % good.len()]))
            .collect();
        assert_eq!(
            String::from_utf8_lossy(&filtered(&input)),
            String::from_utf8_lossy(&expected)
        );
    }

    #[test]
    fn other_headers_are_dropped_and_a_cut_message_ends_it() {
        let body = br#"{"jsonrpc":"2.0","method":"exit"}"#;
        let mut input =
            b"content-length: 33\r\nContent-Type: application/x; charset=utf-16\r\n\r\n".to_vec();
        input.extend(body);
        input.extend(b"Content-Length: 99\r\n\r\n{");
        assert_eq!(filtered(&input), frame(body));
    }
}
