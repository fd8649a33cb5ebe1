//! The services of an account.

/// One of the services that an account has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceKind {
    /// Containers of blobs.
    Blob,
    /// Queues of messages.
    Queue,
    /// Tables of entities.
    Table,
}

impl ServiceKind {
    /// Every service, in the order of the ports that emulators use.
    pub const ALL: [Self; 3] = [Self::Blob, Self::Queue, Self::Table];

    /// As host names, settings and logs spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Queue => "queue",
            Self::Table => "table",
        }
    }

    /// As connection strings and messages spell it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Blob => "Blob",
            Self::Queue => "Queue",
            Self::Table => "Table",
        }
    }

    /// What it keeps its objects in.
    #[must_use]
    pub const fn container(self) -> &'static str {
        match self {
            Self::Blob => "container",
            Self::Queue => "queue",
            Self::Table => "table",
        }
    }

    /// The letter of `ss` in an account's shared access signature.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Blob => 'b',
            Self::Queue => 'q',
            Self::Table => 't',
        }
    }

    /// The letters of permissions in a policy or a signature for one container.
    #[must_use]
    pub const fn permissions(self) -> &'static str {
        match self {
            Self::Blob => "racwdxyltfmeopi",
            Self::Queue => "raup",
            Self::Table => "raud",
        }
    }

    /// The port on which an emulator serves it.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Blob => 10000,
            Self::Queue => 10001,
            Self::Table => 10002,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ServiceKind;

    #[test]
    fn letters_and_ports_are_distinct() {
        let mut letters = ServiceKind::ALL.map(ServiceKind::letter);
        letters.sort_unstable();
        assert_eq!(letters, ['b', 'q', 't']);
        assert_eq!(ServiceKind::ALL.map(ServiceKind::default_port), [10000, 10001, 10002]);
        assert!(ServiceKind::ALL.iter().all(|kind| kind.title().to_lowercase() == kind.name()));
    }
}
