//! The keys of an entity: both templates, and the typed cursor over them.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Ident, LitStr, Result};

use crate::attributes::TypeAttributes;
use crate::case::plain;
use crate::field::{Field, Key, Storage, encrypted_key, is_string, optional};
use crate::template::{Format, Part, Piece, Template};

/// Both templates of an entity.
pub(crate) struct Keys {
    pub(crate) partition: Template,
    pub(crate) row: Template,
}

impl Keys {
    /// Finds the templates, on the struct or on fields, and marks the fields that they name.
    pub(crate) fn new(
        input: &DeriveInput,
        attributes: &TypeAttributes,
        fields: &mut [Field<'_>],
    ) -> Result<Self> {
        let partition = find(input, "partition", attributes.partition.as_ref(), fields, |field| {
            field.attributes.partition.as_ref()
        })?;
        let row = find(input, "row", attributes.row.as_ref(), fields, |field| {
            field.attributes.row.as_ref()
        })?;
        let keys = Self { partition, row };
        for (template, part) in keys.parts() {
            mark(template, part, fields)?;
        }
        for field in fields.iter() {
            if field.attributes.store && field.key == Key::No {
                let message = "`store` is for key parts; this field is stored anyway";
                return Err(Error::new(field.ident.span(), message));
            }
        }
        Ok(keys)
    }

    /// The parts of both templates in their order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&Template, &Part)> {
        let of = |template| Template::parts(template).map(move |part| (template, part));
        of(&self.partition).chain(of(&self.row))
    }

    /// The steps of a cursor, each behind the one before.
    pub(crate) fn steps(&self) -> Vec<Step<'_>> {
        let mut all: Vec<Step<'_>> =
            self.partition.pieces.iter().map(|piece| (Some(piece), &self.partition)).collect();
        all.push((None, &self.row));
        all.extend(self.row.pieces.iter().map(|piece| (Some(piece), &self.row)));
        all
    }
}

/// A piece of a template, or the place between partition and row.
pub(crate) type Step<'a> = (Option<&'a Piece>, &'a Template);

fn find(
    input: &DeriveInput,
    which: &str,
    on_type: Option<&LitStr>,
    fields: &[Field<'_>],
    of: impl for<'f> Fn(&'f Field<'_>) -> Option<&'f Option<LitStr>>,
) -> Result<Template> {
    let names: Vec<&Ident> = fields.iter().map(|field| field.ident).collect();
    let mut on_fields = fields.iter().filter_map(|field| Some((field, of(field)?)));
    let twice = |span| Err(Error::new(span, format!("`{which}` is said twice")));
    match (on_type, on_fields.next(), on_fields.next()) {
        (None, None, _) => {
            let message = format!(
                "an entity needs a key: say `#[entity({which} = \"..\")]` on the struct, or \
                 `#[entity({which})]` on a field"
            );
            Err(Error::new(input.ident.span(), message))
        }
        (_, _, Some((field, _))) | (Some(_), Some((field, _)), _) => twice(field.ident.span()),
        (Some(text), None, _) => Template::parse(text, None, &names),
        (None, Some((field, text)), None) => {
            let own = LitStr::new("{}", field.ident.span());
            Template::parse(text.as_ref().unwrap_or(&own), Some(field.ident), &names)
        }
    }
}

fn mark(template: &Template, part: &Part, fields: &mut [Field<'_>]) -> Result<()> {
    let Some(field) = fields.iter_mut().find(|field| *field.ident == part.field) else {
        return Ok(());
    };
    let error = |message: String| Err(Error::new(field.ident.span(), message));
    let name = field.ident;
    if field.key != Key::No {
        return Err(Error::new(template.text.span(), format!("the templates name `{name}` twice")));
    }
    if optional(field.ty).is_some() {
        return error(format!("`{name}` is a part of the key, so it cannot be an Option"));
    }
    if !matches!(field.storage, Storage::Property | Storage::Text) {
        return error(format!(
            "`{name}` is a part of the key, so it can be renamed or stored, nothing else"
        ));
    }
    if let Some(span) = field.attributes.encrypt {
        return Err(encrypted_key(name, span));
    }
    check_format(field, part)?;
    field.key = if part.format == Format::Lower { Key::Lower } else { Key::Part };
    Ok(())
}

/// Refuses formats that the text of a type shows to be wrong, with one message instead of many.
pub(crate) fn check_format(field: &Field<'_>, part: &Part) -> Result<()> {
    let ty = optional(field.ty).unwrap_or(field.ty);
    let message = match part.format {
        Format::Desc | Format::DecDesc(_) if is_string(ty) => {
            "`String` cannot be descending in a key"
        }
        Format::Dec(_) if is_string(ty) => {
            "`String` cannot be written as digits in a key template: that is for u8 to u64"
        }
        _ => return Ok(()),
    };
    Err(Error::new(ty.span(), message))
}

/// The type of a part: that of its field, or what an optional one holds.
pub(crate) fn type_of<'f>(fields: &'f [Field<'_>], part: &Part) -> Option<&'f syn::Type> {
    let field = fields.iter().find(|field| *field.ident == part.field)?;
    Some(optional(field.ty).unwrap_or(field.ty))
}

/// Where a part is, for messages.
pub(crate) fn meta(template: &Template, field: &str) -> TokenStream {
    let text = template.text.value();
    quote!(&::tavola_client::__private::PartMeta { field: #field, template: #text })
}

impl Keys {
    /// Checks at compile time what depends on the types of parts.
    pub(crate) fn checks(&self, fields: &[Field<'_>]) -> TokenStream {
        let check = |template: &Template| -> TokenStream {
            let check = |part: &Part| {
                let ty = type_of(fields, part);
                let format = part.format.marker();
                let name = plain(&part.field);
                let message = format!(
                    "`{{{name}}}` has no fixed width, so what follows it in the template must begin with \
                     `!`, which sorts below every character of a part: write `{{{name}}}!`"
                );
                quote_spanned! {template.text.span()=>
                    const _: () = ::core::assert!(
                        <#ty as ::tavola_client::KeyPart<#format>>::FIXED, "{}", #message
                    );
                }
            };
            template.unterminated().map(check).collect()
        };
        let (partition, row) = (check(&self.partition), check(&self.row));
        quote!(#partition #row)
    }

    /// The expression of a whole key, of `self`'s fields. That of an index is absent if an optional
    /// part is.
    pub(crate) fn whole(&self, fields: &[Field<'_>]) -> TokenStream {
        let is_optional = |part: &Part| {
            let field = fields.iter().find(|field| *field.ident == part.field);
            field.is_some_and(|field| optional(field.ty).is_some())
        };
        let step = |(piece, template): &Step<'_>| match piece {
            None => quote!(.row()),
            Some(Piece::Literal(literal)) => quote!(.literal(#literal)),
            Some(Piece::Part(part)) => {
                let (ident, format) = (&part.field, part.format.marker());
                let ty = type_of(fields, part);
                let meta = meta(template, &plain(ident));
                let value = if is_optional(part) { quote!(#ident) } else { quote!(&self.#ident) };
                quote_spanned!(ty.span()=> .part::<#format, #ty>(#value, #meta))
            }
        };
        let steps = self.steps();
        let steps = steps.iter().map(step);
        let present =
            self.parts().map(|(_, part)| part).filter(|part| is_optional(part)).map(|part| {
                let ident = &part.field;
                quote! {
                    let ::core::option::Option::Some(#ident) = &self.#ident else {
                        return ::core::result::Result::Ok(::core::option::Option::None);
                    };
                }
            });
        quote! {
            #(#present)*
            <::tavola_client::__private::Cursor as ::core::default::Default>::default()
                #(#steps)* .point::<Self>().into_key()
        }
    }

    /// Reads the parts of both keys into variables of their names.
    pub(crate) fn read(&self, fields: &[Field<'_>]) -> TokenStream {
        let read = |template: &Template, key: TokenStream| {
            let whole = meta(template, "");
            let steps = template.pieces.iter().map(|piece| match piece {
                Piece::Literal(literal) => quote!(__key.literal(#literal, #whole)?;),
                Piece::Part(part) => {
                    let (ident, format) = (&part.field, part.format.marker());
                    let ty = type_of(fields, part);
                    let meta = meta(template, &plain(ident));
                    quote!(let #ident = __key.part::<#format, #ty>(#meta)?;)
                }
            });
            quote! {
                let mut __key = ::tavola_client::__private::KeyReader::new(#key);
                #(#steps)*
                __key.end(#whole)?;
            }
        };
        let partition = read(&self.partition, quote!(__head.partition));
        let row = read(&self.row, quote!(__head.row));
        quote!(#partition #row)
    }
}
