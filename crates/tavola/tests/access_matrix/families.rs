//! Who asks for what: credentials by family, each with the operations that it is asked about.

use crate::credentials::{
    AccountSas, Credential, FROZEN, Ip, Key, Kind, PLAIN, Policy, Protocol, SharedKey, TableSas,
    Terms, Time, WALLED,
};
use crate::operations::{self, OTHER_TABLE, Operation, TABLE};
use crate::rows::Range;
use crate::tokens::bearers;

/// Credentials of one kind; a family has a server of its own.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    credentials: Vec<Credential>,
    operations: Vec<Operation>,
}

impl Family {
    fn new(name: &'static str) -> Self {
        Self { name, groups: Vec::new() }
    }

    fn with(
        mut self,
        credentials: impl IntoIterator<Item = Credential>,
        operations: Vec<Operation>,
    ) -> Self {
        self.groups.push(Group { credentials: credentials.into_iter().collect(), operations });
        self
    }

    pub(crate) fn cases(&self) -> impl Iterator<Item = (&Credential, &Operation)> {
        self.groups.iter().flat_map(|group| {
            let of =
                |credential| group.operations.iter().map(move |operation| (credential, operation));
            group.credentials.iter().flat_map(of)
        })
    }
}

pub(crate) fn all() -> Vec<Family> {
    vec![
        shared_keys(),
        table_signatures(
            "table SAS with partitions or no range",
            &[Range::NONE, Range::PARTITIONS],
        ),
        table_signatures("table SAS with rows", &[Range::ROWS, Range::FROM, Range::TO]),
        table_policies(),
        table_refusals(),
        account_signatures(),
        account_refusals(),
        reading_only(),
        shut_out(),
        tokens(),
    ]
}

/// Those whose answers depend on what a store makes of ranges and transactions.
pub(crate) fn about_rows() -> Vec<Family> {
    vec![
        shared_keys(),
        table_signatures("table SAS", &[Range::PARTITIONS, Range::ROWS]),
        reading_only(),
    ]
}

fn shared_keys() -> Family {
    let good = || {
        [(false, Key::First), (false, Key::Second), (true, Key::First), (true, Key::Second)]
            .map(|(lite, key)| shared_key(SharedKey { lite, key, stale: false, misnamed: false }))
    };
    let bad = [false, true].into_iter().flat_map(|lite| {
        let good = SharedKey { lite, key: Key::First, stale: false, misnamed: false };
        [
            SharedKey { key: Key::Strangers, ..good.clone() },
            SharedKey { stale: true, ..good.clone() },
            SharedKey { misnamed: true, ..good },
        ]
        .map(shared_key)
    });
    let without = [
        Kind::Nothing { version: "2019-02-02" },
        Kind::Nothing { version: "2020-12-06" },
        Kind::Unparsable,
    ];
    Family::new("shared keys")
        .with(good(), operations::everywhere())
        .with(bad.chain(without.map(at_plain)), operations::anywhere())
}

fn shared_key(shared_key: SharedKey) -> Credential {
    at_plain(Kind::SharedKey(shared_key))
}

fn at_plain(kind: Kind) -> Credential {
    Credential { account: PLAIN, secondary: false, kind }
}

fn through_secondary(credential: Credential) -> Credential {
    Credential { secondary: true, ..credential }
}

fn of_frozen(credential: Credential) -> Credential {
    Credential { account: FROZEN, ..credential }
}

fn of_walled(credential: Credential) -> Credential {
    Credential { account: WALLED, ..credential }
}

/// Every set of letters but the empty one.
fn subsets(letters: &str) -> Vec<String> {
    let letters: Vec<char> = letters.chars().collect();
    let chosen =
        |bits: usize| letters.iter().enumerate().filter(move |(index, _)| bits >> index & 1 == 1);
    (1..1 << letters.len()).map(|bits| chosen(bits).map(|(_, letter)| letter).collect()).collect()
}

fn table_sas(letters: &str, range: Range) -> TableSas {
    TableSas {
        terms: Terms::GOOD,
        table: TABLE,
        letters: letters.to_owned(),
        range,
        policy: Policy::Unused,
    }
}

fn table_signatures(name: &'static str, ranges: &[Range]) -> Family {
    let with_range = |range: &Range| {
        let range = *range;
        subsets("raud")
            .into_iter()
            .map(move |letters| at_plain(Kind::TableSas(table_sas(&letters, range))))
    };
    Family::new(name).with(ranges.iter().flat_map(with_range), operations::everywhere())
}

/// Letters and times come from the table's access policy.
fn table_policies() -> Family {
    let supplied = |letters: &String, time| {
        let sas = table_sas(letters, Range::ROWS);
        at_plain(Kind::TableSas(TableSas {
            policy: Policy::Supplies,
            terms: Terms { time, ..Terms::GOOD },
            ..sas
        }))
    };
    let good =
        subsets("raud").iter().map(|letters| supplied(letters, Time::Now)).collect::<Vec<_>>();
    let all = "raud".to_owned();
    let mut bad = vec![supplied(&all, Time::Expired), supplied(&all, Time::NotYet)];
    for policy in [Policy::Unknown, Policy::Twice] {
        bad.push(at_plain(Kind::TableSas(TableSas { policy, ..table_sas(&all, Range::NONE) })));
    }
    let wrong_and_refers = TableSas {
        policy: Policy::Supplies,
        terms: Terms { key: Key::Strangers, ..Terms::GOOD },
        ..table_sas(&all, Range::NONE)
    };
    bad.push(at_plain(Kind::TableSas(wrong_and_refers)));
    Family::new("table SAS with policies")
        .with(good, operations::everywhere())
        .with(bad, operations::anywhere())
}

/// The ways in which terms can be wrong or unusual.
const OTHER_TERMS: [Terms; 8] = [
    Terms { key: Key::Second, ..Terms::GOOD },
    Terms { key: Key::Strangers, ..Terms::GOOD },
    Terms { tampered: true, ..Terms::GOOD },
    Terms { time: Time::Expired, ..Terms::GOOD },
    Terms { time: Time::NotYet, ..Terms::GOOD },
    Terms { ip: Ip::Ours, protocol: Protocol::Any, ..Terms::GOOD },
    Terms { ip: Ip::Elsewhere, ..Terms::GOOD },
    Terms { protocol: Protocol::HttpsOnly, ..Terms::GOOD },
];

/// Some of four things wrong, by bits: which of them is told is a matter of order.
fn wrong_terms(bits: u32) -> Terms {
    let wrong = |bit: u32| bits >> bit & 1 == 1;
    Terms {
        key: if wrong(0) { Key::Strangers } else { Key::First },
        tampered: false,
        time: if wrong(1) { Time::Expired } else { Time::Now },
        ip: if wrong(2) { Ip::Elsewhere } else { Ip::Unsaid },
        protocol: if wrong(3) { Protocol::HttpsOnly } else { Protocol::Unsaid },
    }
}

/// Operations that stand for all where only the order of refusals is asked about.
fn few() -> Vec<Operation> {
    let chosen = [
        "get before",
        "get first",
        "insert after",
        "query all",
        "create-table",
        "get-acl",
        "batch mixed",
    ];
    operations::everywhere()
        .into_iter()
        .filter(|operation| chosen.contains(&operation.name.as_str()))
        .collect()
}

fn table_refusals() -> Family {
    let singles = OTHER_TERMS.map(|terms| TableSas { terms, ..table_sas("raud", Range::NONE) });
    let other_table = TableSas { table: OTHER_TABLE, ..table_sas("raud", Range::NONE) };
    let combined = (0..1 << 7).map(|bits: u32| TableSas {
        terms: wrong_terms(bits),
        table: if bits >> 4 & 1 == 1 { OTHER_TABLE } else { TABLE },
        range: if bits >> 5 & 1 == 1 { Range::ROWS } else { Range::NONE },
        ..table_sas(if bits >> 6 == 1 { "u" } else { "raud" }, Range::NONE)
    });
    Family::new("table SAS refused")
        .with(
            singles.into_iter().chain([other_table]).map(|sas| at_plain(Kind::TableSas(sas))),
            operations::everywhere(),
        )
        .with(combined.map(|sas| at_plain(Kind::TableSas(sas))), few())
}

fn account_sas(types: &str, letters: &str) -> AccountSas {
    AccountSas {
        terms: Terms::GOOD,
        services: "t",
        types: types.to_owned(),
        letters: letters.to_owned(),
    }
}

/// Each letter alone, all of them, all but one, and the pairs that something needs.
fn account_letters() -> Vec<String> {
    const ALL: &str = "rwdlacu";
    let singles = ALL.chars().map(String::from);
    let all_but_one = ALL.chars().map(|letter| ALL.replace(letter, ""));
    singles.chain(all_but_one).chain([ALL, "au", "rl"].map(str::to_owned)).collect()
}

fn account_signatures() -> Family {
    let credentials = subsets("sco").into_iter().flat_map(|types| {
        let with_letters =
            move |letters: String| at_plain(Kind::AccountSas(account_sas(&types, &letters)));
        account_letters().into_iter().map(with_letters)
    });
    Family::new("account SAS").with(credentials, operations::anywhere())
}

fn account_refusals() -> Family {
    let singles = OTHER_TERMS.map(|terms| AccountSas { terms, ..account_sas("sco", "rwdlacu") });
    let other_services = ["b", "bqf", "bqtf"]
        .map(|services| AccountSas { services, ..account_sas("sco", "rwdlacu") });
    let combined = (0..1 << 7).map(|bits: u32| {
        let types = if bits >> 5 & 1 == 1 { "c" } else { "sco" };
        let letters = if bits >> 6 == 1 { "u" } else { "rwdlacu" };
        let services = if bits >> 4 & 1 == 1 { "bqf" } else { "t" };
        AccountSas { terms: wrong_terms(bits), services, ..account_sas(types, letters) }
    });
    let plain = |sas| at_plain(Kind::AccountSas(sas));
    Family::new("account SAS refused")
        .with(singles.into_iter().chain(other_services).map(plain), operations::anywhere())
        .with(combined.map(plain), few())
}

/// Credentials of each kind that open much, little, or nothing.
fn of_each_kind() -> Vec<Credential> {
    let tables = ["r", "a", "u", "au", "raud"]
        .map(|letters| Kind::TableSas(table_sas(letters, Range::ROWS)));
    let accounts = [("sco", "rwdlacu"), ("sco", "rl"), ("o", "au"), ("c", "w")]
        .map(|(t, l)| Kind::AccountSas(account_sas(t, l)));
    let expired = Terms { time: Time::Expired, ..Terms::GOOD };
    let refused = [
        Kind::TableSas(TableSas { terms: expired, ..table_sas("raud", Range::NONE) }),
        Kind::AccountSas(AccountSas { terms: expired, ..account_sas("sco", "rwdlacu") }),
        Kind::Nothing { version: "2019-02-02" },
    ];
    let keys = [(false, Key::First), (true, Key::Second), (false, Key::Strangers)]
        .map(|(lite, key)| Kind::SharedKey(SharedKey { lite, key, stale: false, misnamed: false }));
    keys.into_iter().chain(tables).chain(accounts).chain(refused).map(at_plain).collect()
}

fn reading_only() -> Family {
    let by_policy = TableSas { policy: Policy::Supplies, ..table_sas("raud", Range::ROWS) };
    let by_policy = through_secondary(at_plain(Kind::TableSas(by_policy)));
    Family::new("reading only")
        .with(
            of_each_kind().into_iter().map(through_secondary).chain([by_policy]),
            operations::everywhere(),
        )
        .with(of_each_kind().into_iter().map(of_frozen), operations::everywhere())
        .with(of_each_kind().into_iter().map(of_frozen).map(through_secondary), few())
}

fn shut_out() -> Family {
    Family::new("shut out")
        .with(of_each_kind().into_iter().map(of_walled), operations::anywhere())
        .with(of_each_kind().into_iter().map(of_walled).map(through_secondary), few())
}

fn tokens() -> Family {
    let credentials = token_credentials();
    let reading_only = || {
        credentials
            .iter()
            .cloned()
            .map(of_frozen)
            .chain(credentials.iter().cloned().map(through_secondary))
    };
    Family::new("tokens")
        .with(credentials.clone(), operations::everywhere())
        .with(reading_only(), operations::anywhere())
        .with(credentials.iter().cloned().map(of_walled), operations::anywhere())
}

/// One bearer for each column of `roles.txt`.
fn token_credentials() -> Vec<Credential> {
    bearers().map(|(column, token)| at_plain(Kind::Bearer { token, column })).collect()
}
