//! What a server must hold after some requests, by rules of its own: the definition of each
//! operation, and maps.

use std::collections::BTreeMap;

use tavola_core::filter::eval::matches;
use tavola_core::limits::PAGE_ENTITIES_MAX;
use tavola_core::request::EntityQuery;
use tavola_core::{
    AccessPolicy, ETag, EdmValue, Entity, EntityKey, EntityOperation, PartitionKey, Precondition,
    Properties, PropertyName, RowKey, ServiceProperties, TableName, TableRequest, Timestamp,
};
use tavola_protocol::table::decode::{DecodeError, Decoded};

use crate::server::Server;

/// What one account must hold.
#[derive(Debug, Default)]
pub struct Model {
    /// By their names in lower case.
    tables: BTreeMap<String, Table>,
    properties: ServiceProperties,
    last_tag: Option<ETag>,
}

#[derive(Debug, Default)]
struct Table {
    entities: BTreeMap<EntityKey, Entity>,
    policies: Vec<AccessPolicy>,
    /// The newest version that each partition has seen.
    newest: BTreeMap<PartitionKey, Timestamp>,
}

/// One row after a write: its properties, or none if it is gone.
type RowChange = (EntityKey, Option<Properties>);

impl Model {
    /// The tag of what was written last.
    #[must_use]
    pub fn last_tag(&self) -> Option<&ETag> {
        self.last_tag.as_ref()
    }

    /// The policies of a table.
    #[must_use]
    pub fn policies(&self, table: &str) -> &[AccessPolicy] {
        self.tables.get(&table.to_ascii_lowercase()).map_or(&[], |table| &table.policies)
    }

    /// Learns what became of a request, and asks the server for all that it was about. A request
    /// that only its credentials can have failed must be `done`, unless it `may_fail` for them.
    ///
    /// # Panics
    /// If the server did what it must not, did not do what it must, or does not hold what it said.
    pub fn learn(
        &mut self,
        server: &Server,
        request: &TableRequest,
        done: Option<&Decoded>,
        may_fail: bool,
    ) {
        let is_possible = match request {
            TableRequest::Write(table, partition_key, operation) => self.write(
                server,
                table,
                partition_key,
                std::slice::from_ref(operation),
                done.is_some(),
            ),
            TableRequest::Transaction(table, group) => {
                self.write(server, table, group.partition_key(), group.operations(), done.is_some())
            }
            TableRequest::CreateTable(table) => self.create(table, done.is_some()),
            TableRequest::DeleteTable(table) => {
                let is_possible = self.table(table).is_some();
                if done.is_some() {
                    self.tables.remove(&table.folded());
                }
                is_possible
            }
            TableRequest::SetPolicies(table, policies) => {
                match self.tables.get_mut(&table.folded()) {
                    None => false,
                    Some(_) if done.is_none() => true,
                    Some(table) => {
                        table.policies.clone_from(policies);
                        true
                    }
                }
            }
            TableRequest::SetServiceProperties(change) => {
                if done.is_some() {
                    self.properties = std::mem::take(&mut self.properties).changed(change.clone());
                }
                true
            }
            TableRequest::GetTable(table)
            | TableRequest::GetPolicies(table)
            | TableRequest::QueryEntities(table, _) => self.table(table).is_some(),
            TableRequest::GetEntity(table, key) => self.entity(table, key).is_some(),
            TableRequest::QueryTables(_)
            | TableRequest::GetServiceProperties
            | TableRequest::GetServiceStats
            | TableRequest::GetMetadata => true,
            TableRequest::Misaddressed(..) => false,
        };
        assert!(done.is_none() || is_possible, "{request:?} was done on {self:?}");
        assert!(done.is_some() || !is_possible || may_fail, "{request:?} was refused on {self:?}");
        // What was written has been read back already.
        let is_read_back = done.is_some()
            && matches!(request, TableRequest::Write(..) | TableRequest::Transaction(..));
        if !is_read_back {
            self.check(server, request);
        }
    }

    fn table(&self, name: &TableName) -> Option<&Table> {
        self.tables.get(&name.folded())
    }

    fn entity(&self, table: &TableName, key: &EntityKey) -> Option<&Entity> {
        self.table(table)?.entities.get(key)
    }

    fn create(&mut self, name: &TableName, is_done: bool) -> bool {
        let is_possible = self.table(name).is_none();
        if is_done && is_possible {
            self.tables.insert(name.folded(), Table::default());
        }
        is_possible
    }

    fn write(
        &mut self,
        server: &Server,
        name: &TableName,
        partition_key: &PartitionKey,
        operations: &[EntityOperation],
        is_done: bool,
    ) -> bool {
        let changes: Option<Vec<RowChange>> = operations
            .iter()
            .map(|operation| self.change(name, partition_key, operation))
            .collect();
        let Some(changes) = changes else { return false };
        for (key, properties) in changes.into_iter().filter(|_| is_done) {
            let read = self.read(server, name, &key);
            assert_eq!(
                read.as_ref().map(|entity| &entity.properties),
                properties.as_ref(),
                "after writing {key:?}"
            );
            self.put(name, key, read);
        }
        true
    }

    /// What an operation does to its row; `None` if it cannot be done.
    fn change(
        &self,
        table: &TableName,
        partition_key: &PartitionKey,
        operation: &EntityOperation,
    ) -> Option<RowChange> {
        self.table(table)?;
        let key = EntityKey::new(partition_key.clone(), operation.row_key().clone());
        let current = self.entity(table, &key);
        let is_met = |wanted: &Precondition| match wanted {
            Precondition::None => true,
            Precondition::Exists => current.is_some(),
            Precondition::Version(tag) => {
                current.is_some_and(|entity| ETag::of(entity.timestamp) == *tag)
            }
        };
        let properties = match operation {
            EntityOperation::Insert(new) => {
                current.is_none().then(|| Some(new.properties().clone()))
            }
            EntityOperation::Replace(new, wanted) => {
                is_met(wanted).then(|| Some(new.properties().clone()))
            }
            EntityOperation::Merge(new, wanted) if is_met(wanted) => {
                merged(current, new.properties()).map(Some)
            }
            EntityOperation::Delete(_, wanted) => {
                (current.is_some() && is_met(wanted)).then_some(None)
            }
            EntityOperation::Merge(..) => None,
        }?;
        Some((key, properties))
    }

    fn put(&mut self, name: &TableName, key: EntityKey, entity: Option<Entity>) {
        let table = self.tables.get_mut(&name.folded()).expect("it was there before the write");
        let Some(entity) = entity else {
            table.entities.remove(&key);
            return;
        };
        let newest = table.newest.entry(key.partition_key.clone()).or_insert(Timestamp::MIN);
        let standing =
            table.entities.get(&key).map_or(Timestamp::MIN, |standing| standing.timestamp);
        assert!(
            entity.timestamp >= *newest && entity.timestamp > standing,
            "{entity:?} after {newest}"
        );
        *newest = entity.timestamp;
        self.last_tag = Some(ETag::of(entity.timestamp));
        table.entities.insert(key, entity);
    }

    /// The entity as a client gets it.
    fn read(&self, server: &Server, table: &TableName, key: &EntityKey) -> Option<Entity> {
        match server.ask(&TableRequest::GetEntity(table.clone(), key.clone()), None)? {
            Ok(Decoded::Entity(entity)) => {
                let tag = entity.etag.clone();
                let entity = entity.into_entity().expect("a whole entity");
                assert_eq!((&entity.key, tag), (key, Some(ETag::of(entity.timestamp))));
                Some(entity)
            }
            Err(DecodeError::Service(error)) if error.status == 404 => None,
            other => panic!("{other:?} to a request for {key:?}"),
        }
    }

    /// Asks the server for what a request was about.
    fn check(&self, server: &Server, request: &TableRequest) {
        match request {
            TableRequest::Write(table, partition_key, operation) => {
                self.check_row(server, table, partition_key, operation.row_key());
            }
            TableRequest::Transaction(table, group) => {
                let rows = group.operations().iter().map(EntityOperation::row_key);
                rows.for_each(|row_key| {
                    self.check_row(server, table, group.partition_key(), row_key)
                });
            }
            TableRequest::CreateTable(_)
            | TableRequest::DeleteTable(_)
            | TableRequest::QueryTables(_) => {
                self.check_tables(server);
            }
            TableRequest::SetPolicies(table, _) | TableRequest::GetPolicies(table) => {
                let policies = server
                    .ask(&TableRequest::GetPolicies(table.clone()), None)
                    .and_then(Result::ok);
                assert_eq!(
                    policies,
                    self.table(table).map(|table| Decoded::Policies(table.policies.clone()))
                );
            }
            TableRequest::SetServiceProperties(_) => {
                let properties =
                    server.ask(&TableRequest::GetServiceProperties, None).and_then(Result::ok);
                assert_eq!(properties, Some(Decoded::ServiceProperties(self.properties.clone())));
            }
            TableRequest::QueryEntities(table, query) => self.check_query(server, table, query),
            _ => {}
        }
    }

    fn check_row(
        &self,
        server: &Server,
        table: &TableName,
        partition_key: &PartitionKey,
        row_key: &RowKey,
    ) {
        let key = EntityKey::new(partition_key.clone(), row_key.clone());
        assert_eq!(self.read(server, table, &key).as_ref(), self.entity(table, &key));
    }

    fn check_tables(&self, server: &Server) {
        let tables =
            server.ask(&TableRequest::QueryTables(Default::default()), None).and_then(Result::ok);
        let Some(Decoded::Tables(names, None)) = tables else {
            panic!("{tables:?} to a request for all tables")
        };
        let names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        assert_eq!(names, self.tables.keys().cloned().collect::<Vec<_>>());
    }

    /// All pages of a query together are what the plain evaluator finds.
    fn check_query(&self, server: &Server, name: &TableName, query: &EntityQuery) {
        let Some(table) = self.table(name) else { return };
        let from = query.from.as_ref();
        let from = from.map(|from| {
            EntityKey::new(from.partition_key.clone(), from.row_key.clone().unwrap_or_default())
        });
        let is_asked_for = |entity: &&Entity| {
            from.as_ref().is_none_or(|from| *from <= entity.key)
                && query.filter.as_ref().is_none_or(|filter| matches(filter, *entity))
                // A page of none has no next page.
                && query.top != Some(0)
        };
        let expected: Vec<&Entity> = table.entities.values().filter(is_asked_for).collect();
        let mut found = Vec::new();
        let mut page = None;
        let request = TableRequest::QueryEntities(name.clone(), query.clone());
        // Every page has something or reads on, so that there cannot be more pages than entities.
        for _ in 0..=table.entities.len() {
            let Some(answer) = server.ask(&request, page.as_ref()) else { return };
            let Ok(Decoded::Entities(entities, next)) = answer else {
                panic!("{answer:?} to {request:?}")
            };
            assert!(entities.len() <= query.top.unwrap_or(PAGE_ENTITIES_MAX));
            found.extend(
                entities.into_iter().map(|entity| entity.into_entity().expect("a whole entity")),
            );
            page = next;
            if page.is_none() {
                break;
            }
        }
        assert_eq!(page, None, "{request:?} goes on for ever");
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{request:?}");
    }

    /// Asks the server for everything that it holds.
    ///
    /// # Panics
    /// If it is not what it must hold.
    pub fn check_all(&self, server: &Server) {
        self.check_tables(server);
        for name in self.tables.keys() {
            let table = TableName::parse(name).expect("it was created");
            self.check_query(server, &table, &EntityQuery::default());
        }
    }
}

/// Given properties overwrite in place, others stay, new ones follow; `None` if there are too many.
fn merged(current: Option<&Entity>, newer: &Properties) -> Option<Properties> {
    let own = |(name, value): (&str, tavola_core::EdmRef<'_>)| {
        Some((PropertyName::new(name).ok()?, value.to_owned()))
    };
    let mut properties: Vec<(PropertyName, EdmValue)> =
        current.into_iter().flat_map(|entity| entity.properties.iter()).filter_map(own).collect();
    for (name, value) in newer.iter().filter_map(own) {
        match properties.iter_mut().find(|(standing, _)| *standing == name) {
            Some((_, standing)) => *standing = value,
            None => properties.push((name, value)),
        }
    }
    Properties::new(properties).ok()
}
