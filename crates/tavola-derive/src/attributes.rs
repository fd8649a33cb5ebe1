//! The attributes, as they are written.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned as _;
use syn::{Attribute, LitInt, LitStr, Path, Result};

use crate::case::Case;
use crate::index::IndexAttribute;

/// What stands in `#[entity(..)]` on a struct or an enum.
#[derive(Default)]
pub(crate) struct TypeAttributes {
    pub(crate) kind: Option<LitStr>,
    pub(crate) version: Option<LitInt>,
    pub(crate) kind_property: Option<LitStr>,
    pub(crate) kind_by_prefix: bool,
    pub(crate) upgrade: Vec<Path>,
    pub(crate) partition: Option<LitStr>,
    pub(crate) row: Option<LitStr>,
    pub(crate) case: Case,
    pub(crate) mixed: bool,
    pub(crate) wide: bool,
    pub(crate) family: bool,
    pub(crate) within: Option<Path>,
    pub(crate) indexes: Vec<IndexAttribute>,
}

/// What stands in `#[entity(..)]` on a field.
#[derive(Default)]
pub(crate) struct FieldAttributes {
    pub(crate) rename: Option<LitStr>,
    pub(crate) skip: bool,
    pub(crate) default: bool,
    pub(crate) store: bool,
    pub(crate) as_string: bool,
    pub(crate) json: bool,
    pub(crate) flatten: bool,
    pub(crate) prefix: Option<LitStr>,
    pub(crate) rest: bool,
    pub(crate) write_id: bool,
    pub(crate) etag: bool,
    pub(crate) timestamp: bool,
    /// The part of a wide entity that the field begins.
    pub(crate) part: Option<LitInt>,
    /// Where `encrypt` is said.
    pub(crate) encrypt: Option<Span>,
    /// The template on the field; `{}` is the field.
    pub(crate) partition: Option<Option<LitStr>>,
    pub(crate) row: Option<Option<LitStr>>,
}

const TYPE_ATTRIBUTES: &str = "kind, version, kind_property, kind_by, upgrade, partition, row, index, wide, family, within, rename_all, mixed (enums)";
const FIELD_ATTRIBUTES: &str = "partition, row, rename, skip, default, store, as, json, flatten, prefix, rest, encrypt, \
                                write_id, etag, timestamp, part";

/// Reads every `#[entity(..)]` among the attributes.
pub(crate) fn each(
    attributes: &[Attribute],
    name: &str,
    mut take: impl FnMut(&ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
        attribute.parse_nested_meta(|meta| take(&meta))?;
    }
    Ok(())
}

pub(crate) fn unknown(meta: &ParseNestedMeta<'_>, known: &str) -> syn::Error {
    let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
    meta.error(format!("no attribute `{name}` here: there are {known}"))
}

fn set<T>(meta: &ParseNestedMeta<'_>, place: &mut Option<T>, value: T) -> Result<()> {
    if place.replace(value).is_some() {
        return Err(meta.error("this is said twice"));
    }
    Ok(())
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}

impl TypeAttributes {
    /// The first attribute that is said and not among `allowed`.
    pub(crate) fn said_beside(&self, allowed: &[&str]) -> Option<&'static str> {
        let said = [
            (self.kind.is_some(), "kind"),
            (self.version.is_some(), "version"),
            (self.kind_property.is_some(), "kind_property"),
            (self.kind_by_prefix, "kind_by"),
            (!self.upgrade.is_empty(), "upgrade"),
            (self.partition.is_some(), "partition"),
            (self.row.is_some(), "row"),
            (!matches!(self.case, Case::Same), "rename_all"),
            (self.mixed, "mixed"),
            (self.wide, "wide"),
            (self.family, "family"),
            (self.within.is_some(), "within"),
            (!self.indexes.is_empty(), "index"),
        ];
        said.into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, name)| name)
            .find(|name| !allowed.contains(name))
    }

    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self::default();
        each(attributes, "entity", |meta| found.take(meta))?;
        Ok(found)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let is = |name| meta.path.is_ident(name);
        if is("kind") {
            set(meta, &mut self.kind, text(meta)?)
        } else if is("version") {
            set(meta, &mut self.version, meta.value()?.parse()?)
        } else if is("kind_property") {
            set(meta, &mut self.kind_property, text(meta)?)
        } else if is("partition") {
            set(meta, &mut self.partition, text(meta)?)
        } else if is("row") {
            set(meta, &mut self.row, text(meta)?)
        } else if is("mixed") {
            self.mixed = true;
            Ok(())
        } else if is("wide") {
            self.wide = true;
            Ok(())
        } else if is("family") {
            self.family = true;
            Ok(())
        } else if is("within") {
            set(meta, &mut self.within, meta.value()?.parse()?)
        } else if is("kind_by") {
            let by = text(meta)?;
            self.kind_by_prefix = by.value() == "prefix";
            let error = || syn::Error::new(by.span(), "`kind_by` can be \"prefix\" only");
            self.kind_by_prefix.then_some(()).ok_or_else(error)
        } else if is("rename_all") {
            let case = text(meta)?;
            let error = || {
                syn::Error::new(case.span(), "`rename_all` can be \"PascalCase\" or \"camelCase\"")
            };
            self.case = Case::parse(&case.value()).ok_or_else(error)?;
            Ok(())
        } else if is("index") {
            self.indexes.push(IndexAttribute::parse(meta)?);
            Ok(())
        } else if is("upgrade") {
            meta.parse_nested_meta(|meta| {
                self.upgrade.push(meta.path.clone());
                Ok(())
            })
        } else {
            Err(unknown(meta, TYPE_ATTRIBUTES))
        }
    }
}

impl FieldAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self::default();
        each(attributes, "entity", |meta| found.take(meta))?;
        Ok(found)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let is = |name| meta.path.is_ident(name);
        let template = || -> Result<Option<LitStr>> {
            if meta.input.peek(syn::Token![=]) { text(meta).map(Some) } else { Ok(None) }
        };
        if is("partition") {
            return set(meta, &mut self.partition, template()?);
        } else if is("row") {
            return set(meta, &mut self.row, template()?);
        } else if is("rename") {
            return set(meta, &mut self.rename, text(meta)?);
        } else if is("prefix") {
            return set(meta, &mut self.prefix, text(meta)?);
        } else if is("part") {
            return set(meta, &mut self.part, meta.value()?.parse()?);
        } else if is("encrypt") {
            if !cfg!(feature = "encrypt") {
                return Err(meta.error(
                    "`encrypt` needs the feature `encrypt` of tavola-client: write \
                     `tavola-client = { version = \"..\", features = [\"encrypt\"] }` in Cargo.toml",
                ));
            }
            return set(meta, &mut self.encrypt, meta.path.span());
        } else if is("as") {
            let form = text(meta)?;
            self.as_string = form.value() == "string";
            let error = || syn::Error::new(form.span(), "`as` can be \"string\" only");
            return self.as_string.then_some(()).ok_or_else(error);
        }
        let flags: [(&str, &mut bool); 9] = [
            ("skip", &mut self.skip),
            ("default", &mut self.default),
            ("store", &mut self.store),
            ("json", &mut self.json),
            ("flatten", &mut self.flatten),
            ("rest", &mut self.rest),
            ("write_id", &mut self.write_id),
            ("etag", &mut self.etag),
            ("timestamp", &mut self.timestamp),
        ];
        match flags.into_iter().find(|(name, _)| is(name)) {
            Some((_, flag)) => *flag = true,
            None => return Err(unknown(meta, FIELD_ATTRIBUTES)),
        }
        Ok(())
    }
}
