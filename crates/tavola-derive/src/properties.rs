//! `#[derive(Properties)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Result};

use crate::attributes::TypeAttributes;
use crate::field::{Field, Storage, check_types, fields_of};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = TypeAttributes::parse(&input.attrs)?;
    let fields: Vec<Field<'_>> =
        fields_of(input)?.map(|field| Field::new(field, attributes.case)).collect::<Result<_>>()?;
    if let Some(said) = attributes.said_beside(&["rename_all"]) {
        let message = format!("`{said}` belongs to the entity around a group of properties");
        return Err(Error::new(input.ident.span(), message));
    }
    for field in &fields {
        let alone = matches!(field.storage, Storage::Rest | Storage::ETag | Storage::Timestamp);
        let said = &field.attributes;
        let key = said.partition.is_some() || said.row.is_some() || said.store;
        if alone || key || said.write_id || said.part.is_some() {
            let message = "this belongs to an entity, not to a group of properties";
            return Err(Error::new(field.ident.span(), message));
        }
    }
    check_types(&fields)?;
    let columns = fields.iter().filter_map(Field::column);
    let implementation = implementation(input, &fields);
    let ident = &input.ident;
    Ok(quote! {
        impl #ident { #(#columns)* }
        #implementation
    })
}

fn implementation(input: &DeriveInput, fields: &[Field<'_>]) -> TokenStream {
    let (ident, vis) = (&input.ident, &input.vis);
    let names = fields.iter().filter_map(Field::name_entry);
    let encrypted = fields.iter().filter_map(Field::encrypted_entry);
    let encode = fields.iter().filter_map(Field::encode);
    let (slots, begun): (Vec<_>, Vec<_>) = fields.iter().filter_map(Field::slot).unzip();
    let arms = fields.iter().filter_map(Field::arm);
    let takes = fields.iter().filter_map(Field::flattened_takes);
    let owned = fields.iter().filter(|field| field.is_stored()).map(|field| &field.name);
    let owns = fields.iter().filter_map(Field::flattened_owns);
    let values = fields.iter().map(Field::value);
    let private = quote!(::tavola_client::__private);
    quote! {
        #[allow(clippy::all, unused_variables, unused_mut, unreachable_code, reason = "derived")]
        const _: () = {
            impl #private::Derived for #ident {}

            impl ::tavola_client::Properties for #ident {
                const NAMES: &'static [#private::Name] = &[#(#names),*];
                const ENCRYPTED: &'static [#private::Name] = &[#(#encrypted),*];
                type Decoder = __Decoder;

                fn encode(
                    &self, __sink: &mut dyn #private::PropertySink,
                ) -> ::core::result::Result<(), ::tavola_client::Error> {
                    #(#encode)*
                    ::core::result::Result::Ok(())
                }

                fn decoder() -> __Decoder {
                    __Decoder { #(#begun,)* __error: ::core::option::Option::None }
                }

                fn owns(__name: &str) -> bool {
                    let own = match __name { #(#owned => true,)* _ => false };
                    own #(|| #owns)*
                }
            }

            #vis struct __Decoder {
                #(#slots,)*
                __error: ::core::option::Option<::tavola_client::Error>,
            }

            impl #private::PropertiesDecoder for __Decoder {
                type Out = #ident;

                fn property(&mut self, __name: &str, __value: ::tavola_client::ValueRef<'_>) -> bool {
                    match __name {
                        #(#arms)*
                        _ => return false #(|| #takes)*,
                    }
                    true
                }

                fn finish(self) -> ::core::result::Result<#ident, ::tavola_client::Error> {
                    if let ::core::option::Option::Some(error) = self.__error {
                        return ::core::result::Result::Err(error);
                    }
                    ::core::result::Result::Ok(#ident { #(#values),* })
                }
            }
        };
    }
}
