//! The typed cursor over templates: only leading parts can be given.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Ident, Type, Visibility};

use crate::case::{pascal, plain};
use crate::field::{Field, is_string};
use crate::keys::{Keys, Step, meta, type_of};
use crate::template::{Format, Part, Piece, Template};

/// What a cursor goes over, and how its types are called.
pub(crate) struct Cursor<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) fields: &'a [Field<'a>],
    pub(crate) entity: &'a Ident,
    pub(crate) vis: &'a Visibility,
    /// The function that begins it: `key`.
    pub(crate) function: Ident,
    /// The type of its beginning, and how those of its other stages begin: `EmployeeKey`.
    pub(crate) base: Ident,
    /// The type whose rows it finds.
    pub(crate) of: TokenStream,
    pub(crate) doc: String,
}

/// A part, where it is among the steps, and its template.
type Place<'a> = (usize, &'a Part, &'a Template);

impl Cursor<'_> {
    /// A type for each number of leading parts, and the function that begins.
    pub(crate) fn expand(&self) -> TokenStream {
        let steps = self.keys.steps();
        let places: Vec<Place<'_>> = steps
            .iter()
            .enumerate()
            .filter_map(|(at, (piece, template))| match piece {
                Some(Piece::Part(part)) => Some((at, part, *template)),
                _ => None,
            })
            .collect();
        let mut out = self.beginning(&steps, places.is_empty());
        let mut before = None;
        for (at, place) in places.iter().enumerate() {
            let last = at + 1 == places.len();
            out.extend(self.stage(&steps, before, place, last));
            before = Some(place.1);
        }
        out
    }

    fn beginning(&self, steps: &[Step<'_>], is_point: bool) -> TokenStream {
        let Self { entity, vis, function, base, of, doc, .. } = self;
        let literals = literals(steps, 0);
        let cursor =
            quote!(<::tavola_client::__private::Cursor as ::core::default::Default>::default());
        let (first, make) = match is_point {
            true => (quote!(::tavola_client::PointKey<#of>), quote!(#cursor #literals .point())),
            false => (quote!(#base), quote!(#base(#cursor #literals))),
        };
        quote! {
            impl #entity {
                #[doc = #doc]
                #[allow(dead_code, reason = "no program uses all of them")]
                #vis fn #function() -> #first { #make }
            }
        }
    }

    fn stage_name(&self, after: Option<&Part>) -> Ident {
        let part = after.map(|part| pascal(&plain(&part.field))).unwrap_or_default();
        format_ident!("{}{}", self.base, part)
    }

    fn stage(
        &self,
        steps: &[Step<'_>],
        before: Option<&Part>,
        place: &Place<'_>,
        last: bool,
    ) -> TokenStream {
        let Self { vis, of, doc, .. } = self;
        let own = self.stage_name(before);
        let part = self.part(steps, place, last);
        let between = self.between(place);
        let prefix = self.prefix(place);
        quote! {
            #[doc = #doc]
            #[derive(Debug, Clone)]
            #[must_use]
            #vis struct #own(::tavola_client::__private::Cursor);

            #[allow(dead_code, reason = "no program uses all of them")]
            impl #own { #part #between #prefix }

            impl ::core::convert::From<#own> for ::tavola_client::KeyRange<#of> {
                fn from(cursor: #own) -> Self {
                    cursor.0.range()
                }
            }
        }
    }

    fn type_of(&self, part: &Part) -> Option<&Type> {
        type_of(self.fields, part)
    }

    /// The method that gives the part.
    fn part(
        &self,
        steps: &[Step<'_>],
        (at, part, template): &Place<'_>,
        last: bool,
    ) -> TokenStream {
        let Self { vis, of, .. } = self;
        let (field, format, ty) = (&part.field, part.format.marker(), self.type_of(part));
        let meta = meta(template, &plain(field));
        let (argument, value) = match ty.is_some_and(is_string) {
            true => (
                quote!(impl ::core::convert::Into<::std::string::String>),
                quote!(&::core::convert::Into::<::std::string::String>::into(value)),
            ),
            false => (quote!(#ty), quote!(&value)),
        };
        let next = self.stage_name(Some(part));
        let (returned, finish) = match last {
            true => (quote!(::tavola_client::PointKey<#of>), quote!(cursor.point())),
            false => (quote!(#next), quote!(#next(cursor))),
        };
        let literals = literals(steps, at + 1);
        let doc = format!("The keys with this `{field}`.");
        quote! {
            #[doc = #doc]
            #vis fn #field(self, value: #argument) -> #returned {
                let cursor = self.0.part::<#format, #ty>(#value, #meta) #literals;
                #finish
            }
        }
    }

    /// The method that gives bounds of the part.
    fn between(&self, (_, part, template): &Place<'_>) -> TokenStream {
        let Self { vis, of, .. } = self;
        let (field, format, ty) = (&part.field, part.format.marker(), self.type_of(part));
        let meta = meta(template, &plain(field));
        let name = format_ident!("{field}_in");
        let text = ty.is_some_and(is_string);
        let bound = if text { quote!(&'bound str) } else { quote!(#ty) };
        let lifetime = text.then(|| quote!(<'bound>));
        let owned = text.then(|| quote!(.map(|bound| ::std::string::String::from(*bound))));
        let borrowed = text.then(|| quote!(.as_ref()));
        let doc = format!("The keys whose `{field}` lies in the range.");
        quote! {
            #[doc = #doc]
            #vis fn #name #lifetime (
                self, range: impl ::core::ops::RangeBounds<#bound>,
            ) -> ::tavola_client::KeyRange<#of> {
                let (start, end) = (range.start_bound() #owned, range.end_bound() #owned);
                self.0.between::<_, #format, #ty>((start #borrowed, end #borrowed), #meta)
            }
        }
    }

    /// The method that gives how the part, a text, begins.
    fn prefix(&self, (_, part, _): &Place<'_>) -> Option<TokenStream> {
        let Self { vis, of, .. } = self;
        let field = &part.field;
        let name = format_ident!("{field}_prefix");
        let lower = part.format == Format::Lower;
        let prefix = if lower { quote!(lower_prefix) } else { quote!(prefix) };
        let doc = format!("The keys whose `{field}` begins so.");
        self.type_of(part).is_some_and(is_string).then(|| {
            quote! {
                #[doc = #doc]
                #vis fn #name(
                    self, prefix: impl ::core::convert::AsRef<str>,
                ) -> ::tavola_client::KeyRange<#of> {
                    self.0.#prefix(prefix.as_ref())
                }
            }
        })
    }
}

/// The literals up to the next part: every key that goes on has them.
fn literals(steps: &[Step<'_>], from: usize) -> TokenStream {
    let step = |(piece, _): &Step<'_>| match piece {
        None => Some(quote!(.row())),
        Some(Piece::Literal(literal)) => Some(quote!(.literal(#literal))),
        Some(Piece::Part(_)) => None,
    };
    steps.iter().skip(from).map_while(step).collect()
}
