//! `index(..)`: other keys by which an entity can be found.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::{DeriveInput, Error, Ident, LitStr, Result};

use crate::attributes::unknown;
use crate::case::{pascal, plain};
use crate::cursor::Cursor;
use crate::field::{Field, encrypted_key};
use crate::keys::{Keys, check_format};
use crate::template::Template;

/// A transaction has 100 operations, and a change of an index is two of them.
const SAME_PARTITION_MAX: usize = 49;

/// An index as it is written.
pub(crate) struct IndexAttribute {
    pub(crate) name: Ident,
    partition: Option<LitStr>,
    row: Option<LitStr>,
    unique: bool,
    full: bool,
    copy: Vec<Ident>,
}

impl IndexAttribute {
    /// Reads what stands in `index(..)`: a name first.
    pub(crate) fn parse(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let mut found: Option<Self> = None;
        meta.parse_nested_meta(|meta| {
            let Some(index) = &mut found else {
                let name = meta.path.require_ident()?.clone();
                let (partition, row, copy) = (None, None, Vec::new());
                found = Some(Self { name, partition, row, unique: false, full: false, copy });
                return Ok(());
            };
            index.take(&meta)
        })?;
        found.ok_or_else(|| meta.error("an index has a name: `index(email, row = \"..\")`"))
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let is = |name| meta.path.is_ident(name);
        if is("partition") {
            self.partition = Some(meta.value()?.parse()?);
        } else if is("row") {
            self.row = Some(meta.value()?.parse()?);
        } else if is("unique") {
            self.unique = true;
        } else if is("full") {
            self.full = true;
        } else if is("copy") {
            meta.parse_nested_meta(|meta| {
                self.copy.push(meta.path.require_ident()?.clone());
                Ok(())
            })?;
        } else {
            return Err(unknown(meta, "row, partition, unique, full, copy"));
        }
        Ok(())
    }
}

/// An index, checked.
pub(crate) struct Index {
    name: Ident,
    keys: Keys,
    same_partition: bool,
    unique: bool,
    full: bool,
    /// Names of the properties that are copied.
    copy: Vec<String>,
}

/// Checks the indexes of an entity against its fields and keys.
pub(crate) fn indexes(
    attributes: &[IndexAttribute],
    base: &Keys,
    fields: &[Field<'_>],
) -> Result<Vec<Index>> {
    let mut all: Vec<Index> = Vec::new();
    for attribute in attributes {
        let index = Index::new(attribute, base, fields)?;
        let own = [("the entity itself".to_owned(), &base.row)];
        let others = all.iter().filter(|index| index.same_partition);
        let others = others.map(|index| (format!("index `{}`", index.name), &index.keys.row));
        if all.iter().any(|other| other.name == index.name) {
            return Err(Error::new(index.name.span(), "two indexes have this name"));
        }
        for (whose, row) in own.into_iter().chain(others).filter(|_| index.same_partition) {
            check_apart(&index, &whose, row)?;
        }
        all.push(index);
    }
    match all.iter().filter(|index| index.same_partition).nth(SAME_PARTITION_MAX) {
        Some(index) => {
            let message = format!(
                "more than {SAME_PARTITION_MAX} indexes in the entity's partition do not fit into one \
                 transaction of 100 operations"
            );
            Err(Error::new(index.name.span(), message))
        }
        None => Ok(all),
    }
}

/// Refuses rows of one partition that begin alike.
fn check_apart(index: &Index, whose: &str, row: &Template) -> Result<()> {
    let (own, other) = (index.keys.row.beginning(), row.beginning());
    if !own.starts_with(other) && !other.starts_with(own) {
        return Ok(());
    }
    let message = format!(
        "rows of index `{}` begin with {own:?}, those of {whose} with {other:?}: a range over one would \
         return the other; give each a prefix of its own",
        index.name
    );
    Err(Error::new(index.keys.row.text.span(), message))
}

impl Index {
    fn new(attribute: &IndexAttribute, base: &Keys, fields: &[Field<'_>]) -> Result<Self> {
        let IndexAttribute { name, unique, full, .. } = attribute;
        let names: Vec<&Ident> = fields.iter().map(|field| field.ident).collect();
        let partition = match &attribute.partition {
            Some(partition) => Template::parse(partition, None, &names)?,
            None => base.partition.clone(),
        };
        let Some(row) = &attribute.row else {
            let message = format!("index `{name}` needs a row: `index({name}, row = \"..\")`");
            return Err(Error::new(name.span(), message));
        };
        let row = Template::parse(row, None, &names)?;
        if *full && !attribute.copy.is_empty() {
            return Err(Error::new(
                name.span(),
                "`full` copies everything, so `copy` adds nothing",
            ));
        }
        let copy = attribute.copy.iter().map(|field| {
            let found = fields.iter().find(|own| own.ident == field && own.is_stored());
            let error = || Error::new(field.span(), format!("`{field}` has no property to copy"));
            found.map(|field| field.name.clone()).ok_or_else(error)
        });
        let copy = copy.collect::<Result<_>>()?;
        let keys = Keys { partition, row };
        for (_, part) in keys.parts() {
            let field = fields.iter().find(|field| *field.ident == part.field);
            if let Some(span) = field.and_then(|field| field.attributes.encrypt) {
                return Err(encrypted_key(&part.field, span));
            }
            field.map_or(Ok(()), |field| check_format(field, part))?;
        }
        let same_partition = attribute.partition.is_none();
        let index =
            Self { name: name.clone(), keys, same_partition, unique: *unique, full: *full, copy };
        index.check_distinct(base)?;
        Ok(index)
    }

    /// Rows of two entities must differ, unless that is what the index forbids.
    fn check_distinct(&self, base: &Keys) -> Result<()> {
        let named = |field: &Ident| self.keys.parts().any(|(_, part)| part.field == *field);
        match base.parts().find(|(_, part)| !named(&part.field)) {
            Some((_, part)) if !self.unique => {
                let message = format!(
                    "index `{}` is not `unique`, so that its key must name `{}` too: two entities would \
                     have one row",
                    self.name, part.field
                );
                Err(Error::new(self.keys.row.text.span(), message))
            }
            _ => Ok(()),
        }
    }

    /// The cursor `by_{name}`.
    pub(crate) fn cursor(&self, input: &DeriveInput, fields: &[Field<'_>]) -> TokenStream {
        let (entity, name) = (&input.ident, &self.name);
        let cursor = Cursor {
            keys: &self.keys,
            fields,
            entity,
            vis: &input.vis,
            function: format_ident!("by_{name}"),
            base: format_ident!("{}By{}", entity, pascal(&plain(name))),
            of: quote!(::tavola_client::key::IndexOf<#entity>),
            doc: format!("The keys of index `{name}` of `{entity}`, by their leading parts."),
        };
        cursor.expand()
    }

    /// What the patterns know about the index.
    pub(crate) fn constant(&self) -> TokenStream {
        let Self { name, same_partition, unique, full, copy, .. } = self;
        let (name, row) = (plain(name), self.keys.row.beginning());
        quote! {
            ::tavola_client::__private::Index {
                name: #name,
                same_partition: #same_partition,
                unique: #unique,
                full: #full,
                copy: &[#(#copy),*],
                row: #row,
            }
        }
    }

    pub(crate) fn checks(&self, fields: &[Field<'_>]) -> TokenStream {
        self.keys.checks(fields)
    }

    /// The expression of the key of an entity's row in the index.
    pub(crate) fn key(&self, fields: &[Field<'_>]) -> TokenStream {
        let key = self.keys.whole(fields);
        quote!({ #key .map(::core::option::Option::Some) })
    }
}
