//! `#[derive(Entity)]` on an enum: several kinds of entities in one table.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result, Type, Variant};

use crate::attributes::{TypeAttributes, each, unknown};

/// A kind that the enum knows.
struct Known<'a> {
    ident: &'a Ident,
    ty: &'a Type,
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = TypeAttributes::parse(&input.attrs)?;
    if let Some(said) = attributes.said_beside(&["mixed"]) {
        let message =
            format!("`{said}` belongs to the types of the variants; the enum has `mixed` only");
        return Err(Error::new(input.ident.span(), message));
    }
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "this must be an enum"));
    };
    let (mut known, mut other) = (Vec::new(), None);
    for variant in &data.variants {
        let ty = content(variant)?;
        if is_other(variant)? {
            other = Some(&variant.ident);
        } else {
            known.push(Known { ident: &variant.ident, ty });
        }
    }
    let Some(other) = other else {
        let message = "an enum of kinds needs a place for kinds that it does not know, so that they are \
                       not lost: add `#[entity(other)] Other(DynEntity)`";
        return Err(Error::new(input.ident.span(), message));
    };
    let checks = checks(&known, attributes.mixed);
    let implementation = implementation(&input.ident, &known, other);
    let decoder = decoder(input, &known, other);
    Ok(quote! {
        #[allow(clippy::all, unused_variables, unused_mut, reason = "derived")]
        const _: () = {
            #checks
            #implementation
            #decoder
        };
    })
}

fn content(variant: &Variant) -> Result<&Type> {
    match &variant.fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Ok(&fields.unnamed[0].ty),
        _ => {
            let message = format!("a variant holds one entity: `{0}({0})`", variant.ident);
            Err(Error::new(variant.span(), message))
        }
    }
}

fn is_other(variant: &Variant) -> Result<bool> {
    let mut other = false;
    each(&variant.attrs, "entity", |meta| {
        other = meta.path.is_ident("other");
        if other { Ok(()) } else { Err(unknown(meta, "other")) }
    })?;
    Ok(other)
}

/// What can be checked only where the constants of the variants' types are known.
fn checks(known: &[Known<'_>], mixed: bool) -> TokenStream {
    let private = quote!(::tavola_client::__private::checks);
    let mut out = TokenStream::new();
    for (at, right) in known.iter().enumerate() {
        let (ident, ty) = (right.ident, right.ty);
        let of = |ty: &Type, what: &str| {
            let what = Ident::new(what, ty.span());
            quote!(<#ty as ::tavola_client::Entity>::#what)
        };
        let (kind, keys) = (of(ty, "KIND"), of(ty, "KEYS"));
        let message = format!(
            "rows of `{ident}` cannot be told from others: say `#[entity(kind = \"..\")]` or \
             `#[entity(kind_by = \"prefix\")]` on its type"
        );
        out.extend(quote_spanned! {ty.span()=>
            const _: () = ::core::assert!(#private::has_kind(#kind, #keys), "{}", #message);
        });
        for left in &known[..at] {
            let (left_kind, left_keys) = (of(left.ty, "KIND"), of(left.ty, "KEYS"));
            let message = format!("`{}` and `{ident}` are of the same kind", left.ident);
            out.extend(quote_spanned! {ty.span()=>
                const _: () = ::core::assert!(!#private::kinds_alike(#left_kind, #kind), "{}", #message);
            });
            let message = format!(
                "rows of `{}` and `{ident}` can begin alike, so that a range over one returns the other: \
                 give each template a beginning of its own, or say `#[entity(mixed)]` on the enum",
                left.ident
            );
            out.extend((!mixed).then(|| quote_spanned! {ty.span()=>
                const _: () = ::core::assert!(!#private::rows_alike(#left_keys, #keys), "{}", #message);
            }));
        }
    }
    out
}

fn implementation(ident: &Ident, known: &[Known<'_>], other: &Ident) -> TokenStream {
    let private = quote!(::tavola_client::__private);
    let variants: Vec<_> = known.iter().map(|known| known.ident).chain([other]).collect();
    let types: Vec<_> = known.iter().map(|known| known.ty).collect();
    quote! {
        impl #private::Derived for #ident {}

        impl ::tavola_client::Entity for #ident {
            const KIND: ::core::option::Option<#private::Kind> = ::core::option::Option::None;
            const NAMES: ::core::option::Option<&'static [#private::Name]> =
                ::core::option::Option::None;
            const KEYS: ::core::option::Option<#private::KeyBeginning> =
                ::core::option::Option::None;
            const WRITE_ID: ::core::option::Option<&'static str> = ::core::option::Option::None;
            type Decoder = __Decoder;

            fn entity_key(
                &self,
            ) -> ::core::result::Result<::tavola_client::EntityKey, ::tavola_client::Error> {
                match self { #(Self::#variants(entity) => ::tavola_client::Entity::entity_key(entity)),* }
            }

            fn encode(
                &self, sink: &mut dyn #private::PropertySink,
            ) -> ::core::result::Result<(), ::tavola_client::Error> {
                match self { #(Self::#variants(entity) => ::tavola_client::Entity::encode(entity, sink)),* }
            }

            fn encrypted(&self) -> ::std::vec::Vec<::std::string::String> {
                match self { #(Self::#variants(entity) => ::tavola_client::Entity::encrypted(entity)),* }
            }

            fn decoder() -> __Decoder {
                __Decoder::__Pending(::core::default::Default::default())
            }

            fn owns(&self, name: &str) -> bool {
                match self { #(Self::#variants(entity) => ::tavola_client::Entity::owns(entity, name)),* }
            }

            fn accepts_kind(name: &str, version: u32) -> bool {
                false #(|| <#types as ::tavola_client::Entity>::accepts_kind(name, version))*
            }

            fn mirror(&mut self, etag: &::tavola_client::ETag, timestamp: #private::OffsetDateTime) {
                match self {
                    #(Self::#variants(entity) =>
                        ::tavola_client::Entity::mirror(entity, etag, timestamp)),*
                }
            }
        }
    }
}

fn decoder(input: &DeriveInput, known: &[Known<'_>], other: &Ident) -> TokenStream {
    let (ident, vis) = (&input.ident, &input.vis);
    let private = quote!(::tavola_client::__private);
    let entity = quote!(::tavola_client::Entity);
    let variants: Vec<_> = known.iter().map(|known| known.ident).collect();
    let types: Vec<_> = known.iter().map(|known| known.ty).collect();
    quote! {
        #vis enum __Decoder {
            __Pending(#private::Pending),
            #(#variants(<#types as #entity>::Decoder),)*
        }

        impl #private::Decoder for __Decoder {
            type Out = #ident;

            fn property(&mut self, name: &str, value: ::tavola_client::ValueRef<'_>) {
                match self {
                    #(Self::#variants(decoder) => decoder.property(name, value),)*
                    Self::__Pending(pending) => {
                        pending.push(name, value);
                        #(
                            let accepts = <#types as #entity>::KIND
                                .and_then(|own| own.of_property(name, value))
                                .is_some_and(|(kind, version)| {
                                    <#types as #entity>::accepts_kind(kind, version)
                                });
                            if accepts {
                                *self = Self::#variants(
                                    pending.replay(<#types as #entity>::decoder()),
                                );
                                return;
                            }
                        )*
                    }
                }
            }

            fn finish(
                self, head: &#private::RowHead<'_>,
            ) -> ::core::result::Result<#private::Decoded<#ident>, ::tavola_client::Error> {
                match self {
                    #(Self::#variants(decoder) => {
                        let decoded = decoder.finish(head)?;
                        ::core::result::Result::Ok(#private::Decoded {
                            value: #ident::#variants(decoded.value), rest: decoded.rest,
                        })
                    })*
                    Self::__Pending(pending) => {
                        #(
                            if <#types as #entity>::KEYS.is_some_and(|keys| keys.names(head)) {
                                let decoder = pending.replay(<#types as #entity>::decoder());
                                let decoded = decoder.finish(head)?;
                                return ::core::result::Result::Ok(#private::Decoded {
                                    value: #ident::#variants(decoded.value), rest: decoded.rest,
                                });
                            }
                        )*
                        ::core::result::Result::Ok(#private::Decoded {
                            value: #ident::#other(pending.into_other(head)),
                            rest: ::std::vec::Vec::new(),
                        })
                    }
                }
            }
        }
    }
}
