//! What to do when nobody knows whether a write was applied.
//!
//! A write whose reply is lost is never repeated blindly: a point read on the primary decides.
//! This module is pure. [`resolve`] says what one row tells about one operation, [`Machine`] is
//! the whole of a call as states and events; the driver (`engine.rs`) and the model checker
//! (`tests/unknown.rs`) run the same machine.

mod machine;

pub use machine::{Action, End, Event, Guard, Machine, Refusal};

/// How a call knows that its write was applied.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, Proof, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// let written = table.insert(&DynEntity::new("Smith", "1")).await?;
/// assert_eq!(written.proof, Proof::Reply);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Proof {
    /// The service said so.
    Reply,
    /// The reply was lost; the stored write id is the one that this call sent.
    WriteId,
    /// The reply was lost; the stored entity is the one that was inserted. An identical entity of
    /// somebody else would look the same.
    Content,
    /// The reply was lost; what is stored is what the call asked for, from this write or another.
    State,
}

/// What an operation claims. Conditional ones claim "it was I" and need proof, unconditional ones
/// claim a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    /// An insert.
    Insert,
    /// An insert by which somebody takes something, a lock or a name: equal content is no proof,
    /// and it is never applied twice.
    InsertOnce,
    /// An insert that is content with an entity that is there already.
    InsertIfMissing,
    /// A replace or merge of one version.
    Version,
    /// A delete of one version.
    DeleteVersion,
    /// An upsert.
    Upsert,
    /// A replace or merge of whatever version, but of one.
    UpdateAny,
    /// A delete of whatever version.
    DeleteAny,
    /// The creation of a table; `true` if one that exists already is as good.
    CreateTable(bool),
    /// The deletion of a table; `true` if none is as good.
    DeleteTable(bool),
    /// What can be repeated: policies, properties.
    Settings,
}

impl Claim {
    /// True if a repeat cannot be applied after the first attempt was.
    const fn guards_repeat(self) -> bool {
        matches!(
            self,
            Self::Insert
                | Self::InsertOnce
                | Self::InsertIfMissing
                | Self::Version
                | Self::DeleteVersion
        )
    }

    /// True for what is decided by reading a row; tables and settings are simply repeated.
    const fn reads_row(self) -> bool {
        !matches!(self, Self::CreateTable(_) | Self::DeleteTable(_) | Self::Settings)
    }
}

/// What a point read shows of the row that an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Row {
    /// There is none.
    Absent,
    /// There is one.
    Present {
        /// Its version is the one that the operation names.
        is_same_version: bool,
        /// Its write id is the one that this call sent.
        has_write_id: bool,
        /// It has what was sent: all of it for an insert or a replace, and nothing else; for a merge
        /// among others.
        is_as_sent: bool,
    },
}

/// What was found in place of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Observed {
    /// Another version with the content that was sent.
    Equal,
    /// Another version with other content.
    Different,
    /// No entity.
    Absent,
    /// Nothing: the read failed, or there was none.
    Nothing,
}

impl Observed {
    const fn of(row: Row) -> Self {
        match row {
            Row::Absent => Self::Absent,
            Row::Present { is_as_sent: true, .. } => Self::Equal,
            Row::Present { .. } => Self::Different,
        }
    }
}

/// What follows from a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The claim holds.
    Done(Proof),
    /// Somebody's entity is there, which is as good.
    Existing,
    /// Not applied so far: send the same again.
    Repeat,
    /// Send it again under the condition that the row is still as it was read.
    RepeatAsSeen,
    /// Another entity has the key. Whether ours was there before, nobody knows.
    Exists,
    /// Nobody knows.
    Undecided(Observed),
}

/// What a row tells about an operation whose reply was lost.
#[must_use]
pub const fn resolve(claim: Claim, row: Row) -> Decision {
    if let Row::Present { has_write_id: true, .. } = row {
        return Decision::Done(Proof::WriteId);
    }
    let seen = Observed::of(row);
    match (claim, row) {
        (Claim::Insert | Claim::InsertIfMissing, Row::Absent) => Decision::Repeat,
        (Claim::Insert, Row::Present { is_as_sent: true, .. }) => Decision::Done(Proof::Content),
        (Claim::Insert, Row::Present { .. }) => Decision::Exists,
        (Claim::InsertIfMissing, Row::Present { .. }) => Decision::Existing,
        // Another client may have found it and deleted it: a repeat would take it twice.
        (Claim::InsertOnce, Row::Absent) => Decision::Undecided(seen),
        (Claim::InsertOnce, Row::Present { is_as_sent: true, .. }) => Decision::Undecided(seen),
        (Claim::InsertOnce, Row::Present { .. }) => Decision::Exists,
        (Claim::Version | Claim::DeleteVersion, Row::Present { is_same_version: true, .. }) => {
            Decision::Repeat
        }
        // Equal content is no proof: two clients compute 6 from 5, and one increment is lost.
        (Claim::Version | Claim::DeleteVersion, _) => Decision::Undecided(seen),
        (Claim::Upsert | Claim::UpdateAny, Row::Present { is_as_sent: true, .. }) => {
            Decision::Done(Proof::State)
        }
        (Claim::UpdateAny, Row::Absent) => Decision::Undecided(seen),
        (Claim::Upsert | Claim::UpdateAny, _) => Decision::RepeatAsSeen,
        (Claim::DeleteAny, Row::Absent) => Decision::Done(Proof::State),
        (Claim::DeleteAny, Row::Present { .. }) => Decision::RepeatAsSeen,
        (Claim::CreateTable(_) | Claim::DeleteTable(_) | Claim::Settings, _) => Decision::Repeat,
    }
}

/// The operations of a transaction whose rows decide what became of it, which is what became of
/// each: the first that is conditional and the first with a write id; beside an insert also the
/// first that is for one version. Without a conditional one all.
#[must_use]
pub fn witnesses(operations: &[(Claim, bool)]) -> Vec<usize> {
    let of = |claims: &[Claim]| operations.iter().position(|(claim, _)| claims.contains(claim));
    let insert = of(&[Claim::Insert, Claim::InsertOnce, Claim::InsertIfMissing]);
    let version = of(&[Claim::Version]).or_else(|| of(&[Claim::DeleteVersion]));
    if insert.or(version).is_none() {
        return (0..operations.len()).collect();
    }
    let mut chosen: Vec<usize> = insert.into_iter().chain(version).collect();
    let with_id = operations.iter().position(|(_, has_write_id)| *has_write_id);
    chosen.extend(with_id.filter(|index| !chosen.contains(index)));
    chosen
}

/// What the rows of the [`witnesses`] tell about the whole transaction, a single write being one
/// of one operation.
#[must_use]
pub fn resolve_all(operations: &[(Claim, bool)], rows: &[(usize, Row)]) -> Decision {
    let decisions: Vec<(Claim, Decision)> = rows
        .iter()
        .filter_map(|(index, row)| {
            let (claim, _) = operations.get(*index)?;
            Some((*claim, resolve(*claim, *row)))
        })
        .collect();
    let by_id = Decision::Done(Proof::WriteId);
    if decisions.iter().any(|(_, decision)| *decision == by_id) {
        return by_id;
    }
    // All or nothing: one conditional operation speaks for all.
    let mut conditional = decisions.iter().filter(|(claim, _)| claim.guards_repeat());
    match (conditional.next(), conditional.next()) {
        // What was inserted is there. If a version is still the old one, it was a twin.
        (Some((_, Decision::Done(Proof::Content))), Some((_, version))) => match version {
            Decision::Repeat => Decision::Exists,
            _ => Decision::Undecided(Observed::Equal),
        },
        (Some((_, decision)), _) => *decision,
        (None, _) => resolve_states(&decisions),
    }
}

/// The decision of operations that all claim a state.
fn resolve_states(decisions: &[(Claim, Decision)]) -> Decision {
    let undecided = decisions.iter().find(|(_, one)| matches!(one, Decision::Undecided(_)));
    let unlike = decisions.iter().find(|(_, one)| *one != Decision::Done(Proof::State));
    match (undecided, unlike) {
        (Some((_, decision)), _) | (None, Some((_, decision))) => *decision,
        (None, None) => Decision::Done(Proof::State),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: Row =
        Row::Present { is_same_version: true, has_write_id: false, is_as_sent: false };
    const EQUAL: Row =
        Row::Present { is_same_version: false, has_write_id: false, is_as_sent: true };
    const OTHER: Row =
        Row::Present { is_same_version: false, has_write_id: false, is_as_sent: false };
    const OURS: Row = Row::Present { is_same_version: false, has_write_id: true, is_as_sent: true };

    /// The table of the design, line by line.
    #[test]
    fn each_line() {
        use Claim::*;
        use Decision::*;
        let undecided = |observed| Undecided(observed);
        for (claim, row, expected) in [
            (Insert, OURS, Done(Proof::WriteId)),
            (Insert, Row::Absent, Repeat),
            (Insert, EQUAL, Done(Proof::Content)),
            (Insert, OTHER, Exists),
            (InsertOnce, EQUAL, undecided(Observed::Equal)),
            (InsertOnce, OTHER, Exists),
            (InsertOnce, OURS, Done(Proof::WriteId)),
            (Version, OURS, Done(Proof::WriteId)),
            (Version, SAME, Repeat),
            (Version, EQUAL, undecided(Observed::Equal)),
            (Version, OTHER, undecided(Observed::Different)),
            (Version, Row::Absent, undecided(Observed::Absent)),
            (DeleteVersion, SAME, Repeat),
            (DeleteVersion, OTHER, undecided(Observed::Different)),
            (DeleteVersion, Row::Absent, undecided(Observed::Absent)),
            (Upsert, OURS, Done(Proof::WriteId)),
            (Upsert, EQUAL, Done(Proof::State)),
            (Upsert, OTHER, RepeatAsSeen),
            (Upsert, Row::Absent, RepeatAsSeen),
            (UpdateAny, EQUAL, Done(Proof::State)),
            (UpdateAny, OTHER, RepeatAsSeen),
            (InsertIfMissing, OURS, Done(Proof::WriteId)),
            (InsertIfMissing, OTHER, Existing),
            (InsertIfMissing, Row::Absent, Repeat),
            (DeleteAny, Row::Absent, Done(Proof::State)),
            (DeleteAny, OTHER, RepeatAsSeen),
            (CreateTable(false), Row::Absent, Repeat),
        ] {
            assert_eq!(resolve(claim, row), expected, "{claim:?} {row:?}");
        }
    }

    #[test]
    fn one_row_of_a_transaction_decides() {
        let upsert = (Claim::Upsert, false);
        assert_eq!(witnesses(&[upsert, (Claim::Version, false), (Claim::Insert, false)]), [2, 1]);
        assert_eq!(witnesses(&[upsert, (Claim::Insert, false)]), [1]);
        assert_eq!(witnesses(&[upsert, (Claim::DeleteVersion, false)]), [1]);
        assert_eq!(witnesses(&[upsert, (Claim::DeleteAny, false)]), [0, 1]);
        assert_eq!(witnesses(&[(Claim::Upsert, true), (Claim::Version, false)]), [1, 0]);
        let mixed = [(Claim::Upsert, true), (Claim::Version, false)];
        let decide = |first, second| resolve_all(&mixed, &[(1, first), (0, second)]);
        assert_eq!(decide(OTHER, OURS), Decision::Done(Proof::WriteId));
        assert_eq!(decide(SAME, OTHER), Decision::Repeat);
        assert_eq!(decide(OTHER, OTHER), Decision::Undecided(Observed::Different));
        // Equal content is no proof while a version says otherwise.
        let both = [(Claim::Insert, false), (Claim::Version, false)];
        let decide = |first, second| resolve_all(&both, &[(0, first), (1, second)]);
        assert_eq!(decide(EQUAL, SAME), Decision::Exists);
        assert_eq!(decide(EQUAL, OTHER), Decision::Undecided(Observed::Equal));
        assert_eq!(decide(Row::Absent, OTHER), Decision::Repeat);
        let states = [upsert, (Claim::DeleteAny, false)];
        let decide = |first, second| resolve_all(&states, &[(0, first), (1, second)]);
        assert_eq!(decide(EQUAL, Row::Absent), Decision::Done(Proof::State));
        assert_eq!(decide(EQUAL, OTHER), Decision::RepeatAsSeen);
        assert_eq!(decide(Row::Absent, Row::Absent), Decision::RepeatAsSeen);
    }
}
