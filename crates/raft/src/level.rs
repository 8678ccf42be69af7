//! The levels of forms: each command says in the log of which one it is, and a program refuses what is above those that
//! it knows. See docs/adr/0014.

use crate::machine::Machine;
use crate::machine_error::MachineError;
use ::types::encoding;

/// A command as it stands in the log: the level of its form, then the command.
pub(crate) fn encode<M: Machine>(command: &M::Command) -> Vec<u8> {
    encoding::encode(command, vec![M::level_of(command)])
}

/// What is applied must be understood as a whole, or members make different rows of it.
pub(crate) fn decode<M: Machine>(machine: &M, bytes: &[u8]) -> Result<M::Command, String> {
    match (bytes.split_first(), machine.level_max()) {
        (Some((&level, _)), max) if level > max => Err(format!("it is {}", too_new(level, max))),
        (Some((_, command)), _) => encoding::decode(command).map_err(|error| error.to_string()),
        (None, _) => Err("it has no bytes".into()),
    }
}

/// A program must not go on with a state of forms that it does not know.
pub(crate) fn check_level(machine: &impl Machine) -> Result<(), MachineError> {
    let (level, max) = (machine.level(), machine.level_max());
    if level <= max { Ok(()) } else { Err(MachineError(format!("the state is {}", too_new(level, max)))) }
}

/// What is wrong with a form, and what to do about it.
pub(crate) fn too_new(level: u8, max: u8) -> String {
    format!("of level {level}, and this program knows levels up to {max}: start the newer program that the group runs")
}
