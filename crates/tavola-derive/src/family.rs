//! Families: rows of one kind behind each row of another one.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Result};

use crate::attributes::TypeAttributes;
use crate::field::Field;
use crate::keys::{Keys, type_of};
use crate::template::Piece;

/// Refuses a family whose kinds could not be told apart.
pub(crate) fn check(
    input: &DeriveInput,
    attributes: &TypeAttributes,
    has_kind: bool,
) -> Result<()> {
    let is_in_one = attributes.family || attributes.within.is_some();
    if !is_in_one || has_kind {
        return Ok(());
    }
    let span = attributes.within.as_ref().map_or(input.ident.span(), |parent| parent.span());
    let message = "the kinds of a family are in one range of keys: say `#[entity(kind = \"..\")]`, by \
                   which a query tells them apart";
    Err(Error::new(span, message))
}

/// What must hold of the parent, whose attributes are not seen here.
pub(crate) fn checks(attributes: &TypeAttributes) -> Option<TokenStream> {
    let parent = attributes.within.as_ref()?;
    let name = parent.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    let checks = quote!(::tavola_client::__private::checks);
    let not_family =
        format!("`{name}` does not expect rows behind its own: say `#[entity(family)]` on it");
    let not_behind = format!(
        "the rows are not behind those of `{name}`: repeat its partition, and its row with more behind it"
    );
    Some(quote_spanned! {parent.span()=>
        const _: () = {
            ::core::assert!(<#parent as ::tavola_client::Entity>::FAMILY, "{}", #not_family);
            ::core::assert!(
                #checks::is_behind(__TEMPLATES, <#parent as ::tavola_client::Entity>::TEMPLATES),
                "{}", #not_behind
            );
        };
    })
}

/// The constants by which a query knows a family.
pub(crate) fn constants(
    attributes: &TypeAttributes,
    keys: &Keys,
    fields: &[Field<'_>],
) -> TokenStream {
    let is_in_one = attributes.family || attributes.within.is_some();
    let is_fixed = match keys.row.pieces.last() {
        Some(Piece::Part(part)) => {
            let (ty, format) = (type_of(fields, part), part.format.marker());
            quote!(<#ty as ::tavola_client::KeyPart<#format>>::FIXED)
        }
        _ => quote!(true),
    };
    quote! {
        const TEMPLATES: (&'static str, &'static str) = __TEMPLATES;
        const FAMILY: bool = #is_in_one;
        const ROW_IS_FIXED: bool = #is_fixed;
    }
}

/// Both templates, as they are written.
pub(crate) fn templates(keys: &Keys) -> TokenStream {
    let text = |template: &crate::template::Template| template.canonical();
    let (partition, row) = (text(&keys.partition), text(&keys.row));
    quote!(const __TEMPLATES: (&str, &str) = (#partition, #row);)
}
