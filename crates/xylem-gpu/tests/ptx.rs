//! Runs blake3.ptx on the processor, instruction by instruction, and compares its values with xylem-hash's: what the
//! driver compiles is tested on machines without a GPU.

use std::collections::HashMap;

use xylem_hash::tree::chunk_group_cvs;

const TEXT: &str = include_str!("../src/blake3.ptx");
/// Address of the first byte of the GPU's memory.
const BASE: u64 = 0x7f00_0000_0000;

/// A register, constant or special register.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Register(usize),
    Constant(u64),
    Thread,
    Block,
}

/// An instruction: its name, operands, predicate and, for a jump, its target.
#[derive(Debug)]
struct Instruction {
    name: &'static str,
    operands: Vec<Operand>,
    only_if: Option<(usize, bool)>,
    target: usize,
}

struct Kernel {
    code: Vec<Instruction>,
    registers: usize,
}

/// Registers get numbers in the order of their names.
#[derive(Default)]
struct Names(HashMap<&'static str, usize>);

impl Names {
    fn number(&mut self, name: &'static str) -> usize {
        let next = self.0.len();
        *self.0.entry(name).or_insert(next)
    }

    fn operand(&mut self, text: &'static str) -> Operand {
        match text {
            "%tid.x" => Operand::Thread,
            "%ctaid.x" => Operand::Block,
            _ if text.starts_with('%') => Operand::Register(self.number(text)),
            // Each kernel has one array in shared memory, at its beginning.
            _ if text.ends_with("shared") => Operand::Constant(0),
            _ => Operand::Constant(text.parse::<i64>().expect("a number") as u64),
        }
    }
}

impl Kernel {
    fn named(name: &str) -> Self {
        let start = format!(".entry {name}(");
        let (_, body) = TEXT.split_once(&start).expect("a kernel");
        let (body, _) = body.split_once("\n}").expect("its end");
        let (_, body) = body.split_once("\n{").expect("its beginning");
        let lines = body.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('.'));
        let (mut code, mut labels, mut jumps) = (Vec::new(), HashMap::new(), Vec::new());
        let mut names = Names::default();
        for line in lines {
            if let Some(label) = line.strip_suffix(':') {
                labels.insert(label, code.len());
                continue;
            }
            let mut line = line.strip_suffix(';').expect("an instruction");
            let mut only_if = None;
            if let Some(rest) = line.strip_prefix('@') {
                let (predicate, rest) = rest.split_once([' ', '\t']).expect("an instruction");
                let positive = predicate.strip_prefix('!');
                only_if = Some((names.number(positive.unwrap_or(predicate)), positive.is_none()));
                line = rest.trim();
            }
            let (name, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            let rest = rest.trim();
            let mut operands = Vec::new();
            if name.starts_with("bra") {
                jumps.push((code.len(), rest));
            } else if name.starts_with("ld.param") {
                let (to, parameter) = rest.split_once(',').expect("two operands");
                let (_, number) = parameter.rsplit_once('_').expect("a parameter");
                operands.push(names.operand(to));
                operands.push(names.operand(number.trim_end_matches(']')));
            } else {
                let split = |c: char| ", []{}+".contains(c);
                operands
                    .extend(rest.split(split).filter(|t| !t.is_empty()).map(|t| names.operand(t)));
            }
            code.push(Instruction { name, operands, only_if, target: 0 });
        }
        for (at, label) in jumps {
            code[at].target = labels[label];
        }
        Self { code, registers: names.0.len() }
    }

    /// Runs all blocks of `threads` threads each.
    fn run(&self, blocks: u64, threads: usize, parameters: &[u64], memory: &mut [u8]) {
        for block in 0..blocks {
            let mut shared = vec![0xA5; 48 << 10];
            let mut all = vec![(0, vec![0_u64; self.registers]); threads];
            let mut is_over = false;
            while !is_over {
                // Each thread goes on to the next barrier.
                let ended = all.iter_mut().enumerate().map(|(thread, (at, registers))| {
                    let places = Places { parameters, thread: thread as u64, block };
                    self.go_on(at, registers, &places, &mut shared, memory)
                });
                let ended = Vec::from_iter(ended);
                is_over = ended[0];
                assert!(ended.iter().all(|e| *e == is_over), "a barrier that some do not reach");
            }
        }
    }

    /// Runs a thread; returns whether it has ended, and is not at a barrier.
    fn go_on(
        &self,
        at: &mut usize,
        r: &mut [u64],
        places: &Places<'_>,
        shared: &mut [u8],
        memory: &mut [u8],
    ) -> bool {
        loop {
            let Instruction { name, operands, only_if, target } = &self.code[*at];
            *at += 1;
            if only_if.is_some_and(|(predicate, wanted)| (r[predicate] != 0) != wanted) {
                continue;
            }
            let get = |i: usize| match operands[i] {
                Operand::Register(number) => r[number],
                Operand::Constant(value) => value,
                Operand::Thread => places.thread,
                Operand::Block => places.block,
            };
            let word = |i: usize| get(i) as u32;
            let value = match *name {
                "ret" => return true,
                "bar.sync" => return false,
                "bra" | "bra.uni" => {
                    *at = *target;
                    continue;
                }
                name if name.starts_with("ld.param") => places.parameters[get(1) as usize],
                name if name.starts_with("ld.") && name.ends_with(".v4.u32") => {
                    let start = get(4) + operands.get(5).map_or(0, |_| get(5));
                    let from = place(name, start, shared, memory);
                    let quad =
                        Vec::from_iter(from.chunks_exact(4).map(|w| {
                            u64::from(u32::from_le_bytes(w.try_into().expect("four bytes")))
                        }));
                    for (operand, value) in operands.iter().zip(quad) {
                        let Operand::Register(to) = operand else { panic!("{name}") };
                        r[*to] = value;
                    }
                    continue;
                }
                name if name.starts_with("st.") && name.ends_with(".v4.u32") => {
                    let with_offset = operands.len() == 6;
                    let start = get(0) + if with_offset { get(1) } else { 0 };
                    let first = operands.len() - 4;
                    let quad = [0, 1, 2, 3].map(|i| word(first + i).to_le_bytes());
                    place(name, start, shared, memory).copy_from_slice(&quad.concat());
                    continue;
                }
                "mad.lo.u32" => u64::from(word(1).wrapping_mul(word(2)).wrapping_add(word(3))),
                "xor.b32" => u64::from(word(1) ^ word(2)),
                "shf.r.wrap.b32" => {
                    let both = u64::from(word(2)) << 32 | u64::from(word(1));
                    both >> (word(3) & 31) & 0xFFFF_FFFF
                }
                "prmt.b32" => {
                    let bytes = (u64::from(word(2)) << 32 | u64::from(word(1))).to_le_bytes();
                    let pick = |i: u32| bytes[(word(3) >> (4 * i) & 7) as usize];
                    u64::from(u32::from_le_bytes([pick(0), pick(1), pick(2), pick(3)]))
                }
                "mov.u32" | "cvt.u64.u32" | "cvt.u32.u64" => u64::from(word(1)),
                "mov.u64" | "cvta.to.global.u64" => get(1),
                "selp.b32" => u64::from(if get(3) != 0 { word(1) } else { word(2) }),
                "add.s32" => u64::from(word(1).wrapping_add(word(2))),
                "add.s64" => get(1).wrapping_add(get(2)),
                "and.b32" => u64::from(word(1) & word(2)),
                "and.b64" => get(1) & get(2),
                "mul.lo.s64" => get(1).wrapping_mul(get(2)),
                "mul.wide.u32" => u64::from(word(1)) * u64::from(word(2)),
                "shl.b32" => u64::from(word(1) << word(2)),
                "shl.b64" => get(1) << get(2),
                "shr.u32" => u64::from(word(1) >> word(2)),
                "shr.u64" => get(1) >> get(2),
                "setp.lt.u32" => u64::from(word(1) < word(2)),
                "setp.gt.u32" => u64::from(word(1) > word(2)),
                "setp.ge.u32" => u64::from(word(1) >= word(2)),
                "setp.eq.s32" => u64::from(word(1) == word(2)),
                "setp.ne.s32" => u64::from(word(1) != word(2)),
                "setp.lt.u64" => u64::from(get(1) < get(2)),
                "setp.ge.u64" => u64::from(get(1) >= get(2)),
                "setp.eq.s64" => u64::from(get(1) == get(2)),
                other => panic!("{other} is not known here"),
            };
            let Operand::Register(to) = operands[0] else { panic!("{name}") };
            r[to] = value;
        }
    }
}

struct Places<'a> {
    parameters: &'a [u64],
    thread: u64,
    block: u64,
}

/// The 16 bytes at an address of the memory that an instruction names.
fn place<'a>(name: &str, at: u64, shared: &'a mut [u8], memory: &'a mut [u8]) -> &'a mut [u8] {
    assert_eq!(at % 16, 0, "{name}");
    let (bytes, start) =
        if name.contains("shared") { (shared, at) } else { (memory, at.wrapping_sub(BASE)) };
    &mut bytes[start as usize..][..16]
}

#[test]
fn the_compiled_kernel_hashes_as_the_processor_does() {
    let [aligned, unaligned] = ["segments_aligned", "segments_unaligned"].map(Kernel::named);
    let mut content = vec![0; 40 * 8_192 + 64];
    getrandom::fill(&mut content).expect("random bytes");
    let values = content.len().next_multiple_of(16);
    let mut cases = vec![(0, 33, (1 << 32) - 8), (16, 1, 0), (13, 33, 1 << 40)];
    cases.extend((0..16).map(|offset| (offset, 1, 8)));
    for (offset, segments, first_chunk) in cases {
        let mut memory = content.clone();
        memory.resize(values + segments * 32, 0xA5);
        memory.extend([0xA5; 64]);
        let chunks = segments as u64 * 8;
        let parameters = [BASE + offset as u64, first_chunk, chunks, BASE + values as u64, 1];
        // Any address is right for the second kernel.
        let kernels = if offset % 16 == 0 { vec![&aligned, &unaligned] } else { vec![&unaligned] };
        for kernel in kernels {
            kernel.run(chunks.div_ceil(256), 256, &parameters, &mut memory);
            let mut expected = Vec::new();
            let bytes = &content[offset..][..segments * 8_192];
            chunk_group_cvs(bytes, 8_192, first_chunk, &mut expected);
            let expected = Vec::from_iter(expected.iter().flat_map(|value| *value.as_bytes()));
            let (found, behind) = memory[values..].split_at(segments * 32);
            assert!(found == expected, "{segments} segments from byte {offset}");
            assert_eq!(behind, [0xA5; 64]);
            memory[values..].fill(0xA5);
        }
    }
}

#[test]
fn the_compiled_kernel_joins_regions() {
    let mut content = vec![0; 2 << 22];
    getrandom::fill(&mut content).expect("random bytes");
    let bytes = |group: usize| {
        let mut values = Vec::new();
        chunk_group_cvs(&content, group, 4_096, &mut values);
        Vec::from_iter(values.iter().flat_map(|value| *value.as_bytes()))
    };
    let (mut memory, expected) = (bytes(8 << 10), bytes(4 << 20));
    let values = memory.len();
    memory.resize(values + 64, 0xA5);
    let parameters = [BASE, BASE + values as u64, 1];
    Kernel::named("regions").run(2, 256, &parameters, &mut memory);
    assert_eq!(memory[values..], expected);
}
