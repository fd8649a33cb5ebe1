//! The derive macros of `tavola-client`, which re-exports them.

mod attributes;
mod case;
mod cursor;
mod entity;
mod family;
mod field;
mod index;
mod key_part;
mod keys;
mod kinds;
mod projection;
mod properties;
mod template;
mod wide;

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, parse_macro_input};

/// Makes rows of a table of a struct, or of an enum of such structs.
///
/// | On | Attribute | Meaning |
/// | --- | --- | --- |
/// | struct | `partition = ".."`, `row = ".."` | templates of the keys: `empid_{id:06}` |
/// | | `kind = ".."`, `version = 2` | stored as `kind@2` and checked on reading |
/// | | `kind_property = ".."` | the property that holds the kind; `EntityType` if not said |
/// | | `kind_by = "prefix"` | the beginning of the row's key is the kind; nothing is stored |
/// | | `upgrade(V1, ..)` | older versions are read as these types, then `From` |
/// | | `rename_all = ".."` | `PascalCase` or `camelCase` |
/// | | `index(name, row = "..", partition = "..", unique, full, copy(a, b))` | another key by which it is found; `partition` only if it is another one |
/// | | `family` | other kinds have rows behind each of this one's |
/// | | `within = Parent` | its rows are behind those of `Parent`, which is a `family` |
/// | | `wide` | more than 252 properties, in several rows: `patterns::Wide` |
/// | field | `partition`, `row`, each also with a template in which `{}` is the field | |
/// | | `rename = ".."`, `skip`, `default`, `store` (a key part also as property) | |
/// | | `as = "string"`, `json`, `flatten` with `prefix = ".."`, `rest` | |
/// | | `encrypt` | stored encrypted (feature `encrypt`); neither in keys nor in filters |
/// | | `write_id`, `etag`, `timestamp` | |
/// | | `part = 1` | the part of a wide entity that it and those behind it are in |
/// | enum | `mixed` | rows of the variants may begin alike |
/// | variant | `other` | the place for kinds that the enum does not know, written back whole |
///
/// `Employee::key()` begins a typed cursor: `Employee::key().dept("Sales").id(212)` is the key of one
/// entity, `.id_in(100..200)` a range; `Employee::by_email()` goes over an index. `Employee::LAST` is the column of the field `last`.
#[proc_macro_derive(Entity, attributes(entity))]
pub fn entity(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = match &input.data {
        Data::Enum(_) => kinds::expand(&input),
        _ => entity::expand(&input),
    };
    finish(expanded)
}

/// Makes properties of the entity around it of a struct's fields: `#[entity(flatten)]`.
#[proc_macro_derive(Properties, attributes(entity))]
pub fn properties(input: TokenStream) -> TokenStream {
    finish(properties::expand(&parse_macro_input!(input as DeriveInput)))
}

/// Makes a projection of a struct: some fields of an entity, by name and type.
///
/// `#[projection(of = Employee)]` names the entity.
#[proc_macro_derive(Projection, attributes(projection))]
pub fn projection(input: TokenStream) -> TokenStream {
    finish(projection::expand(&parse_macro_input!(input as DeriveInput)))
}

/// Makes a key part of a struct around another one: `struct DeptId(String);`.
#[proc_macro_derive(KeyPart)]
pub fn key_part(input: TokenStream) -> TokenStream {
    finish(key_part::expand(&parse_macro_input!(input as DeriveInput)))
}

fn finish(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
