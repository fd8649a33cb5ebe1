//! The keys of an entity: both templates, and the typed cursor over them.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Ident, LitStr, Result};

use crate::attributes::TypeAttributes;
use crate::case::pascal;
use crate::field::{Field, Key, Storage, is_string};
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
    fn steps(&self) -> Vec<Step<'_>> {
        let mut all: Vec<Step<'_>> =
            self.partition.pieces.iter().map(|piece| (Some(piece), &self.partition)).collect();
        all.push((None, &self.row));
        all.extend(self.row.pieces.iter().map(|piece| (Some(piece), &self.row)));
        all
    }
}

/// A piece of a template, or the place between partition and row.
type Step<'a> = (Option<&'a Piece>, &'a Template);

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
    if crate::field::optional(field.ty).is_some() {
        return error(format!("`{name}` is a part of the key, so it cannot be an Option"));
    }
    if !matches!(field.storage, Storage::Property | Storage::Text) {
        return error(format!(
            "`{name}` is a part of the key, so it can be renamed or stored, nothing else"
        ));
    }
    field.key = if part.format == Format::Lower { Key::Lower } else { Key::Part };
    Ok(())
}

/// The type of a part's field.
fn type_of<'f>(fields: &'f [Field<'_>], part: &Part) -> Option<&'f syn::Type> {
    fields.iter().find(|field| *field.ident == part.field).map(|field| field.ty)
}

/// Where a part is, for messages.
fn meta(template: &Template, field: &str) -> TokenStream {
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
                let name = part.field.to_string();
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

    /// The expression of a whole key, of `self`'s fields.
    pub(crate) fn whole(&self, fields: &[Field<'_>]) -> TokenStream {
        let step = |(piece, template): &Step<'_>| match piece {
            None => quote!(.row()),
            Some(Piece::Literal(literal)) => quote!(.literal(#literal)),
            Some(Piece::Part(part)) => {
                let (ident, format) = (&part.field, part.format.marker());
                let ty = type_of(fields, part);
                let meta = meta(template, &ident.to_string());
                quote_spanned!(ty.span()=> .part::<#format, #ty>(&self.#ident, #meta))
            }
        };
        let steps = self.steps();
        let steps = steps.iter().map(step);
        quote! {
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
                    let meta = meta(template, &ident.to_string());
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

    /// The cursor: a type for each number of leading parts, and the function that begins it.
    pub(crate) fn cursor(&self, input: &DeriveInput, fields: &[Field<'_>]) -> TokenStream {
        let (entity, vis) = (&input.ident, &input.vis);
        let point = quote!(::tavola_client::PointKey<#entity>);
        let range = quote!(::tavola_client::KeyRange<#entity>);
        let steps = self.steps();
        let mut places = steps
            .iter()
            .enumerate()
            .filter_map(|(at, (piece, template))| match piece {
                Some(Piece::Part(part)) => Some((at, part, *template)),
                _ => None,
            })
            .collect::<Vec<_>>();
        // The literals between the part before and this one belong to the part before.
        let literals = |from: usize| -> TokenStream {
            let step = |(piece, _): &Step<'_>| match piece {
                None => Some(quote!(.row())),
                Some(Piece::Literal(literal)) => Some(quote!(.literal(#literal))),
                Some(Piece::Part(_)) => None,
            };
            steps[from..].iter().map_while(step).collect()
        };
        let stage = |after: Option<&Part>| {
            let part = after.map(|part| pascal(&part.field.to_string())).unwrap_or_default();
            format_ident!("{}Key{}", entity, part, span = entity.span())
        };
        let begin = literals(0);
        let cursor =
            quote!(<::tavola_client::__private::Cursor as ::core::default::Default>::default());
        let mut out = TokenStream::new();
        let (first, make) = match places.is_empty() {
            true => (point.clone(), quote!(#cursor #begin .point())),
            false => {
                let first = stage(None);
                (quote!(#first), quote!(#first(#cursor #begin)))
            }
        };
        let doc = format!("The keys of `{entity}`, by their leading parts.");
        out.extend(quote! {
            impl #entity {
                #[doc = #doc]
                #[allow(dead_code)]
                #vis fn key() -> #first { #make }
            }
        });
        let mut before = None;
        places.reverse();
        while let Some((at, part, template)) = places.pop() {
            let next = places.last().map(|_| stage(Some(part)));
            let own = stage(before);
            let literals = literals(at + 1);
            let methods = self.methods(
                part,
                template,
                fields,
                next.as_ref(),
                &literals,
                [&point, &range, &quote!(#vis)],
            );
            out.extend(quote! {
                #[doc = #doc]
                #[derive(Debug, Clone)]
                #[must_use]
                #vis struct #own(::tavola_client::__private::Cursor);

                #[allow(dead_code)]
                impl #own { #methods }

                impl ::core::convert::From<#own> for #range {
                    fn from(cursor: #own) -> Self {
                        cursor.0.range()
                    }
                }
            });
            before = Some(part);
        }
        out
    }

    /// What can follow in a cursor: the part itself, values between bounds, and beginnings of texts.
    fn methods(
        &self,
        part: &Part,
        template: &Template,
        fields: &[Field<'_>],
        next: Option<&Ident>,
        literals: &TokenStream,
        [point, range, vis]: [&TokenStream; 3],
    ) -> TokenStream {
        let (field, format) = (&part.field, part.format.marker());
        let Some(ty) = type_of(fields, part) else { return TokenStream::new() };
        let meta = meta(template, &field.to_string());
        let (within, begins) = (format_ident!("{field}_in"), format_ident!("{field}_prefix"));
        let text = is_string(ty);
        let (argument, value) = match text {
            true => (
                quote!(impl ::core::convert::Into<::std::string::String>),
                quote!(&::core::convert::Into::<::std::string::String>::into(value)),
            ),
            false => (quote!(#ty), quote!(&value)),
        };
        let (returned, finish) = match next {
            Some(next) => (quote!(#next), quote!(#next(cursor))),
            None => (quote!(#point), quote!(cursor.point())),
        };
        let (bounds, owned) = match text {
            true => {
                (quote!(&'bound str), quote!(.map(|bound| ::std::string::String::from(*bound))))
            }
            false => (quote!(#ty), quote!()),
        };
        let lifetime = text.then(|| quote!(<'bound>));
        let reference = text.then(|| quote!(.as_ref()));
        let docs = [
            format!("The keys with this `{field}`."),
            format!("The keys whose `{field}` lies in the range."),
            format!("The keys whose `{field}` begins so."),
        ];
        let [doc_part, doc_range, doc_prefix] = &docs;
        let prefix = text.then(|| {
            let prefix =
                if part.format == Format::Lower { quote!(lower_prefix) } else { quote!(prefix) };
            quote! {
                #[doc = #doc_prefix]
                #vis fn #begins(self, prefix: impl ::core::convert::AsRef<str>) -> #range {
                    self.0.#prefix(prefix.as_ref())
                }
            }
        });
        quote! {
            #[doc = #doc_part]
            #vis fn #field(self, value: #argument) -> #returned {
                let cursor = self.0.part::<#format, #ty>(#value, #meta) #literals;
                #finish
            }

            #[doc = #doc_range]
            #vis fn #within #lifetime (self, range: impl ::core::ops::RangeBounds<#bounds>) -> #range {
                let (start, end) = (range.start_bound() #owned, range.end_bound() #owned);
                self.0.between::<_, #format, #ty>((start #reference, end #reference), #meta)
            }

            #prefix
        }
    }
}
