//! `#[derive(Projection)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Path, Result};

use crate::attributes::{each, unknown};
use crate::case::{plain, screaming};
use crate::field::fields_of;

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let mut of: Option<Path> = None;
    each(&input.attrs, "projection", |meta| {
        if !meta.path.is_ident("of") {
            return Err(unknown(meta, "of"));
        }
        of = Some(meta.value()?.parse()?);
        Ok(())
    })?;
    let Some(of) = of else {
        let message = "say of which entity: `#[projection(of = Employee)]`";
        return Err(Error::new(input.ident.span(), message));
    };
    let fields: Vec<&syn::Field> = fields_of(input)?.collect();
    let columns: Vec<TokenStream> = fields
        .iter()
        .filter_map(|field| field.ident.as_ref())
        .map(|ident| {
            let column = format_ident!("{}", screaming(&plain(ident)), span = ident.span());
            quote!(<#of>::#column)
        })
        .collect();
    let checks = columns.iter().zip(&fields).map(|(column, field)| {
        let ty = &field.ty;
        quote_spanned! {ty.span()=>
            let _: ::tavola_client::Column<#of, #ty, _> = #column;
        }
    });
    let (ident, private) = (&input.ident, quote!(::tavola_client::__private));
    let decoder = decoder(input, &fields, &columns);
    Ok(quote! {
        #[allow(clippy::all, reason = "derived")]
        const _: () = {
            impl #private::Derived for #ident {}

            impl ::tavola_client::Projection for #ident {
                type Of = #of;
                const NAMES: &'static [#private::Name] =
                    &[#(#private::Name::One(#columns.own_name())),*];
                type Decoder = __Decoder;

                fn decoder() -> __Decoder {
                    ::core::default::Default::default()
                }
            }

            const _: () = { #(#checks)* };

            #decoder
        };
    })
}

/// What reads the fields, each by the name of its column.
fn decoder(input: &DeriveInput, fields: &[&syn::Field], columns: &[TokenStream]) -> TokenStream {
    let (ident, vis) = (&input.ident, &input.vis);
    let private = quote!(::tavola_client::__private);
    let idents: Vec<_> = fields.iter().filter_map(|field| field.ident.as_ref()).collect();
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    quote! {
        #[derive(Default)]
        #vis struct __Decoder {
            #(#idents: ::core::option::Option<#types>,)*
            __error: ::core::option::Option<::tavola_client::Error>,
        }

        impl #private::Decoder for __Decoder {
            type Out = #ident;

            fn property(&mut self, __name: &str, __value: ::tavola_client::ValueRef<'_>) {
                #(
                    if __name == #columns.own_name() {
                        #private::fill::<#types>(
                            &mut self.#idents, &mut self.__error, __name, __value,
                        );
                    }
                )*
            }

            fn finish(
                self, _head: &#private::RowHead<'_>,
            ) -> ::core::result::Result<#private::Decoded<#ident>, ::tavola_client::Error> {
                if let ::core::option::Option::Some(error) = self.__error {
                    return ::core::result::Result::Err(error);
                }
                let value = #ident {
                    #(#idents: #private::take::<#types>(self.#idents, #columns.own_name())?,)*
                };
                ::core::result::Result::Ok(#private::Decoded { value, rest: ::std::vec::Vec::new() })
            }
        }
    }
}
