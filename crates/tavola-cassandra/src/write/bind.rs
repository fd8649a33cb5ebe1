//! A value for a statement of a batch, borrowed where it is large.

use scylla::frame::response::result::ColumnType;
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use uuid::Uuid;

/// The statements of a batch have different columns, and the driver wants one type for all.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bind<'a> {
    Big(i64),
    Int(i32),
    Id(Uuid),
    Blob(&'a [u8]),
}

impl SerializeValue for Bind<'_> {
    fn serialize<'b>(
        &self,
        column: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        match self {
            Self::Big(value) => value.serialize(column, writer),
            Self::Int(value) => value.serialize(column, writer),
            Self::Id(value) => value.serialize(column, writer),
            Self::Blob(value) => value.serialize(column, writer),
        }
    }
}
