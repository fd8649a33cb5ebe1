//! `#[derive(KeyPart)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataStruct, DeriveInput, Error, Fields, Result};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let inner = match &input.data {
        Data::Struct(DataStruct { fields: Fields::Unnamed(fields), .. })
            if fields.unnamed.len() == 1 && input.generics.params.is_empty() =>
        {
            fields.unnamed.first()
        }
        _ => None,
    };
    let Some(inner) = inner else {
        let message = "a key part is a struct around another one: `struct DeptId(String);`";
        return Err(Error::new(input.ident.span(), message));
    };
    let (ident, ty) = (&input.ident, &inner.ty);
    let key = quote!(::tavola_client::key);
    Ok(quote! {
        impl<F> ::tavola_client::KeyPart<F> for #ident
        where
            #ty: ::tavola_client::KeyPart<F>,
        {
            const FIXED: bool = <#ty as ::tavola_client::KeyPart<F>>::FIXED;
            const DESCENDING: bool = <#ty as ::tavola_client::KeyPart<F>>::DESCENDING;

            fn write(
                &self, text: &mut #key::KeyText,
            ) -> ::core::result::Result<(), #key::KeyPartError> {
                <#ty as ::tavola_client::KeyPart<F>>::write(&self.0, text)
            }

            fn read(
                text: &mut #key::KeyReader<'_>,
            ) -> ::core::result::Result<Self, #key::KeyPartError> {
                <#ty as ::tavola_client::KeyPart<F>>::read(text).map(Self)
            }
        }
    })
}
