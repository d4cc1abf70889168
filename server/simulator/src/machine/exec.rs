//! The step loop: one wavefront until it must wait, end, or give others a turn.

use super::code::{Condition, Op};
use super::state::{Problem, Status, WaveState};
use super::wave::Wave;
use super::worker::Worker;
use crate::isa::{Instruction, M0, Operand, VCC_LO};
use crate::valu::{self, ValuInst};

/// Bounds that the step loop looks at.
pub(crate) struct Bounds<'a> {
    pub(crate) max_instructions: u64,
    /// Checked now and then; says why to stop.
    pub(crate) interrupted: &'a (dyn Fn() -> Option<Problem> + Sync),
    /// Code object address 0 in device memory.
    pub(crate) bias: u64,
}

/// Instructions between two looks at the clock.
const CLOCK_PERIOD: u64 = 1 << 16;

/// Run a wave for at most `quantum` instructions, until a barrier, its end, or a problem.
pub(crate) fn run(
    worker: &mut Worker,
    state: &mut WaveState,
    lds: &mut [u8],
    quantum: u64,
    bounds: &Bounds,
) -> Result<(), Problem> {
    let code = worker.code;
    let mut left = quantum;
    while left > 0 {
        left -= 1;
        let at = state.pc;
        let Some(inst) = code.insts.get(at as usize) else {
            return Err(Problem::Unknown {
                name: "(no instruction)".to_owned(),
                why: "control ran past the end of the code".to_owned(),
            });
        };
        state.pc = at + 1;
        state.executed += 1;
        worker.clock += 1;
        if worker.clock.is_multiple_of(CLOCK_PERIOD)
            && let Some(problem) = (bounds.interrupted)()
        {
            state.pc = at;
            return Err(problem);
        }
        if state.executed > bounds.max_instructions {
            state.pc = at;
            return Err(Problem::Instructions);
        }
        let cycles = u64::from(worker.issue[at as usize]);
        state.now = [state.now[0] + cycles, state.now[1] + cycles];
        let stat = &mut worker.stats[at as usize];
        stat.count += 1;
        stat.lanes += u64::from(state.w.exec.count_ones());
        // On a problem, `pc` must name the instruction to blame.
        let result = match &inst.op {
            Op::Valu(valu) => {
                valu.execute(&mut state.w);
                Ok(())
            }
            Op::Salu(salu) => {
                salu.execute(&mut state.w);
                Ok(())
            }
            Op::Vmem(vmem) => vmem.execute(at, worker, state, lds),
            Op::Lds(op) => op.execute(at, worker, state, lds),
            Op::Smem(smem) => smem.execute(at, worker, state),
            Op::Branch(condition, to) => {
                let w = &state.w;
                let taken = match condition {
                    Condition::Always => true,
                    Condition::Scc(value) => w.scc == *value,
                    Condition::VccZero(zero) => (w.sgpr64(VCC_LO) == 0) == *zero,
                    Condition::ExecZero(zero) => (w.exec == 0) == *zero,
                };
                if taken {
                    state.pc = *to;
                }
                Ok(())
            }
            Op::Wait { vm, lgkm } => {
                let before = state.now;
                state.now = state.vm.wait(*vm as usize, state.now);
                state.now = state.lgkm.wait(*lgkm as usize, state.now);
                let stall = &mut worker.stats[at as usize].stall;
                stall[0] += state.now[0] - before[0];
                stall[1] += state.now[1] - before[1];
                Ok(())
            }
            Op::Barrier => {
                state.status = Status::Barrier(at);
                return Ok(());
            }
            Op::End => {
                state.status = Status::Ended;
                return Ok(());
            }
            Op::Message => {
                worker.message = true;
                return Ok(());
            }
            Op::Nop => Ok(()),
            Op::Call(dst, to) => {
                let back = code.insts.get(at as usize + 1).map_or(0, |i| i.address);
                state.w.set_sgpr64(*dst, bounds.bias.wrapping_add(back));
                state.pc = *to;
                Ok(())
            }
            Op::GetPc(dst, value) => {
                state.w.set_sgpr64(*dst, *value);
                Ok(())
            }
            Op::SetPc(target) => {
                let to = target.get64(&state.w);
                jump(worker, state, to, bounds)
            }
            Op::SwapPc(dst, back, target) => {
                let to = target.get64(&state.w);
                state.w.set_sgpr64(*dst, *back);
                jump(worker, state, to, bounds)
            }
            Op::GetReg(dst, id, offset, bits) => {
                let value = hardware_register(&state.w, *id) >> offset;
                let mask = ((1u64 << bits) - 1) as u32;
                state.w.set_sgpr(*dst, value & mask);
                Ok(())
            }
            Op::SetReg(source, id, offset, bits) => {
                let value = source.get(&state.w);
                set_hardware_register(&mut state.w, *id, *offset, *bits, value);
                // The vector ALU rounds to nearest even only; going on would give wrong results silently.
                if state.w.mode.round_f32 | state.w.mode.round_f16_f64 == 0 {
                    Ok(())
                } else {
                    Err(Problem::Unknown {
                        name: inst.text.split(' ').next().unwrap_or_default().to_owned(),
                        why: "it sets a rounding mode other than to nearest even".to_owned(),
                    })
                }
            }
            Op::Time(dst) => {
                // Four cycles an instruction, and the same on every run.
                let now = state.executed * 4;
                state.w.set_sgpr64(*dst, now);
                let latency = u64::from(worker.target.latency.l1_cycles);
                state.lgkm.issue(state.now, [latency; 2]);
                Ok(())
            }
            Op::IndexOn(source, mode) => {
                let index = source.get(&state.w) & 0xff;
                let m0 = state.w.sgpr(M0) & !0xf0ff;
                state.w.set_sgpr(M0, m0 | index | u32::from(*mode) << 12);
                Ok(())
            }
            Op::IndexSet(source) => {
                let index = source.get(&state.w) & 0xff;
                let m0 = state.w.sgpr(M0) & !0xff;
                state.w.set_sgpr(M0, m0 | index);
                Ok(())
            }
            Op::IndexOff => Ok(()),
            Op::Indexed(inst, mode) => indexed(at, inst, *mode, worker, state),
            // 3 is the debugger's break point: without one, the wave goes on.
            Op::Trap(3) => Ok(()),
            Op::Trap(id) => Err(Problem::Trap(*id)),
            Op::Unknown(why) => Err(Problem::Unknown {
                name: inst.text.split(' ').next().unwrap_or_default().to_owned(),
                why: why.clone(),
            }),
        };
        if let Err(problem) = result {
            state.pc = at;
            return Err(problem);
        }
    }
    Ok(())
}

fn jump(worker: &Worker, state: &mut WaveState, to: u64, bounds: &Bounds) -> Result<(), Problem> {
    match worker.code.at(to.wrapping_sub(bounds.bias)) {
        Some(index) => {
            state.pc = index;
            Ok(())
        }
        None => Err(Problem::Jump(to)),
    }
}

/// A vector instruction whose register numbers move by M0.
fn indexed(
    at: u32,
    inst: &Instruction,
    mode: u8,
    worker: &mut Worker,
    state: &mut WaveState,
) -> Result<(), Problem> {
    let index = state.w.sgpr(M0) & 0xff;
    if let Some(valu) = worker.indexed.get(&(at, index)) {
        valu.execute(&mut state.w);
        return Ok(());
    }
    let unknown = |why: String| Problem::Unknown {
        name: inst.mnemonic.clone(),
        why,
    };
    let valu = move_registers(inst, mode, index as u16).map_err(unknown)?;
    valu.execute(&mut state.w);
    worker.indexed.insert((at, index), valu);
    Ok(())
}

fn move_registers(inst: &Instruction, mode: u8, index: u16) -> Result<ValuInst, String> {
    let mut operands = inst.operands.clone();
    for (n, operand) in operands.iter_mut().enumerate() {
        // Bit 3 moves the destination, bits 0 to 2 the sources.
        let moved = match n.checked_sub(1) {
            None => mode >> 3 & 1,
            Some(source) if source < 3 => mode >> source & 1,
            Some(_) => 0,
        };
        if moved == 1
            && let Operand::Vgpr { first, .. } = operand
        {
            *first += index;
        }
    }
    match valu::decode(&inst.mnemonic, &operands, &inst.modifiers) {
        Some(result) => result,
        None => Err("it is not implemented yet".to_owned()),
    }
}

/// MODE and the aperture bases; all others read as 0.
fn hardware_register(wave: &Wave, id: u8) -> u32 {
    match id {
        1 => {
            let m = wave.mode;
            u32::from(m.round_f32 & 3)
                | u32::from(m.round_f16_f64 & 3) << 2
                | u32::from(m.denorm_f32 & 3) << 4
                | u32::from(m.denorm_f16_f64 & 3) << 6
                | u32::from(m.dx10_clamp) << 8
                | u32::from(m.ieee) << 9
        }
        // SH_MEM_BASES: the apertures' top 16 bits, private low, shared high.
        15 => {
            let top = |base: u64| (base >> 48) as u32;
            top(super::wave::PRIVATE_APERTURE) | top(super::wave::SHARED_APERTURE) << 16
        }
        _ => 0,
    }
}

fn set_hardware_register(wave: &mut Wave, id: u8, offset: u8, bits: u8, value: u32) {
    if id != 1 {
        return;
    }
    let mask = (((1u64 << bits) - 1) << offset) as u32;
    let mode = hardware_register(wave, 1) & !mask | value << offset & mask;
    wave.mode = super::wave::Mode {
        round_f32: (mode & 3) as u8,
        round_f16_f64: (mode >> 2 & 3) as u8,
        denorm_f32: (mode >> 4 & 3) as u8,
        denorm_f16_f64: (mode >> 6 & 3) as u8,
        dx10_clamp: mode >> 8 & 1 == 1,
        ieee: mode >> 9 & 1 == 1,
    };
}
