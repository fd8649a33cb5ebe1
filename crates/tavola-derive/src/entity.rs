//! `#[derive(Entity)]` on a struct.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Result};

use crate::attributes::TypeAttributes;
use crate::cursor::Cursor;
use crate::family;
use crate::field::{Field, Storage, check_name, check_types, fields_of};
use crate::index::{Index, indexes};
use crate::keys::Keys;
use crate::wide::Wide;

/// A struct and what its attributes say.
struct Model<'a> {
    input: &'a DeriveInput,
    attributes: &'a TypeAttributes,
    fields: &'a [Field<'a>],
    keys: &'a Keys,
    kind: Option<Kind>,
    indexes: Vec<Index>,
    wide: Option<Wide>,
}

/// The stored kind.
struct Kind {
    property: String,
    name: String,
    version: u32,
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = &TypeAttributes::parse(&input.attrs)?;
    if attributes.mixed {
        return Err(Error::new(input.ident.span(), "`mixed` is for enums of entities"));
    }
    let mut fields: Vec<Field<'_>> =
        fields_of(input)?.map(|field| Field::new(field, attributes.case)).collect::<Result<_>>()?;
    let keys = &Keys::new(input, attributes, &mut fields)?;
    check_fields(&fields)?;
    check_types(&fields)?;
    let kind = kind(input, attributes)?;
    let indexes = indexes(&attributes.indexes, keys, &fields)?;
    family::check(input, attributes, kind.is_some())?;
    let wide = Wide::new(attributes, &fields, kind.is_some())?;
    let model = Model { input, attributes, fields: &fields, keys, kind, indexes, wide };
    let columns = fields.iter().filter_map(Field::column);
    let cursors = model.cursors();
    let (checks, implementation, decoder) =
        (model.checks(), model.implementation(), model.decoder());
    let ident = &input.ident;
    Ok(quote! {
        impl #ident { #(#columns)* }

        #cursors

        #[allow(clippy::all, unused_variables, unused_mut, reason = "derived")]
        const _: () = {
            #checks
            #implementation
            #decoder
        };
    })
}

fn check_fields(fields: &[Field<'_>]) -> Result<()> {
    let stored = fields.iter().filter(|field| field.is_stored());
    let mut names = std::collections::HashSet::new();
    for field in stored {
        if !names.insert(&field.name) {
            let message = format!("two fields have the property `{}`", field.name);
            return Err(Error::new(field.ident.span(), message));
        }
    }
    for storage in [Storage::Rest, Storage::ETag, Storage::Timestamp] {
        let mut such = fields.iter().filter(|field| field.storage == storage);
        if let (Some(_), Some(second)) = (such.next(), such.next()) {
            return Err(Error::new(second.ident.span(), "there can be one such field"));
        }
    }
    let mut ids = fields.iter().filter(|field| field.attributes.write_id);
    if let (Some(_), Some(second)) = (ids.next(), ids.next()) {
        return Err(Error::new(second.ident.span(), "there can be one `write_id`"));
    }
    match fields
        .iter()
        .find(|field| field.attributes.write_id && field.storage != Storage::Property)
    {
        Some(field) => Err(Error::new(field.ident.span(), "a `write_id` is a plain property")),
        None => Ok(()),
    }
}

fn kind(input: &DeriveInput, attributes: &TypeAttributes) -> Result<Option<Kind>> {
    let Some(name) = &attributes.kind else {
        let needs = attributes.version.is_some()
            || !attributes.upgrade.is_empty()
            || attributes.kind_property.is_some();
        if needs {
            let message = "versions need a kind: say `#[entity(kind = \"..\")]`";
            return Err(Error::new(input.ident.span(), message));
        }
        return Ok(None);
    };
    if attributes.kind_by_prefix {
        let message = "`kind` stores a property, `kind_by` does without one: say one of them";
        return Err(Error::new(name.span(), message));
    }
    let text = name.value();
    if text.is_empty() || text.contains('@') {
        return Err(Error::new(
            name.span(),
            "a kind is a text without `@`, which begins the version",
        ));
    }
    let version = match &attributes.version {
        Some(version) => version.base10_parse()?,
        None => 1,
    };
    if version == 0 {
        let span = attributes.version.as_ref().map_or(name.span(), syn::LitInt::span);
        return Err(Error::new(span, "versions begin with 1"));
    }
    let property = match &attributes.kind_property {
        Some(property) => {
            check_name(&property.value(), property.span())?;
            property.value()
        }
        None => "EntityType".to_owned(),
    };
    Ok(Some(Kind { property, name: text, version }))
}

impl Kind {
    fn tokens(&self) -> TokenStream {
        let Self { property, name, version } = self;
        let text = if *version == 1 { name.clone() } else { format!("{name}@{version}") };
        quote! {
            ::tavola_client::__private::Kind {
                property: #property, name: #name, version: #version, text: #text,
            }
        }
    }
}

impl Model<'_> {
    fn cursors(&self) -> TokenStream {
        let entity = &self.input.ident;
        let own = Cursor {
            keys: self.keys,
            fields: self.fields,
            entity,
            vis: &self.input.vis,
            function: quote::format_ident!("key"),
            base: quote::format_ident!("{entity}Key"),
            of: quote!(#entity),
            doc: format!("The keys of `{entity}`, by their leading parts."),
        };
        let own = own.expand();
        let indexes = self.indexes.iter().map(|index| index.cursor(self.input, self.fields));
        quote!(#own #(#indexes)*)
    }

    fn names(&self) -> TokenStream {
        let kind = self.kind.iter().map(|kind| {
            let property = &kind.property;
            quote!(::tavola_client::__private::Name::One(#property))
        });
        let names = kind.chain(self.fields.iter().filter_map(Field::name_entry));
        quote!(&[#(#names),*])
    }

    fn checks(&self) -> TokenStream {
        let (ident, private) = (&self.input.ident, quote!(::tavola_client::__private));
        let keys = self.keys.checks(self.fields);
        let indexes = self.indexes.iter().map(|index| index.checks(self.fields));
        let flattened = self.fields.iter().find(|field| field.storage == Storage::Flatten);
        let span = flattened.map_or(ident.span(), |field| field.ident.span());
        let names = self.names();
        let write_id = self.fields.iter().filter(|field| field.attributes.write_id).map(|field| {
            let ty = field.ty;
            quote_spanned! {ty.span()=>
                const _: () = ::core::assert!(
                    #private::checks::holds_write_id(<#ty as ::tavola_client::PropertyType>::EDM),
                    "a `write_id` is a String or a Uuid, or an Option of one"
                );
            }
        });
        let fit = match &self.wide {
            Some(wide) => wide.checks(),
            None => quote! {
                ::core::assert!(
                    #private::names::fit(__NAMES),
                    "an entity has at most 252 properties; `#[entity(wide)]` and `Wide` split one \
                     into several rows"
                );
            },
        };
        let (templates, family) = (family::templates(self.keys), family::checks(self.attributes));
        quote_spanned! {span=>
            #keys
            #(#indexes)*
            #templates
            #family
            const __NAMES: &[#private::Name] = #names;
            const _: () = {
                #fit
                ::core::assert!(
                    #private::names::distinct::<{ #private::names::count(__NAMES) }>(__NAMES),
                    "two properties have one name: give the flattened field a `prefix`, or rename one"
                );
            };
            #(#write_id)*
        }
    }

    fn implementation(&self) -> TokenStream {
        let (ident, private) = (&self.input.ident, quote!(::tavola_client::__private));
        let kind = match &self.kind {
            Some(kind) => {
                let kind = kind.tokens();
                quote!(::core::option::Option::Some(#kind))
            }
            None => quote!(::core::option::Option::None),
        };
        let (partition, row) = (self.keys.partition.beginning(), self.keys.row.beginning());
        let is_kind = self.attributes.kind_by_prefix;
        let id = self.fields.iter().find(|field| field.attributes.write_id);
        let write_id = match id.map(|field| &field.name) {
            Some(name) => quote!(::core::option::Option::Some(#name)),
            None => quote!(::core::option::Option::None),
        };
        let key = self.keys.whole(self.fields);
        let methods = self.methods();
        let indexes = self.indexes.iter().map(Index::constant);
        let encrypted = self.fields.iter().filter_map(Field::encrypted_entry);
        let index_keys = self.indexes.iter().enumerate().map(|(at, index)| {
            let key = index.key(self.fields);
            quote!(#at => #key,)
        });
        let wide = self.wide.as_ref().map(|wide| wide.implementation(ident));
        let family = family::constants(self.attributes, self.keys, self.fields);
        quote! {
            impl #private::Derived for #ident {}

            #wide

            impl ::tavola_client::Entity for #ident {
                const KIND: ::core::option::Option<#private::Kind> = #kind;
                const NAMES: ::core::option::Option<&'static [#private::Name]> =
                    ::core::option::Option::Some(__NAMES);
                const KEYS: ::core::option::Option<#private::KeyBeginning> =
                    ::core::option::Option::Some(#private::KeyBeginning {
                        partition: #partition, row: #row, is_kind: #is_kind, is_family: Self::FAMILY,
                    });
                #family
                const WRITE_ID: ::core::option::Option<&'static str> = #write_id;
                const INDEXES: &'static [#private::Index] = &[#(#indexes),*];
                const ENCRYPTED: &'static [#private::Name] = &[#(#encrypted),*];
                type Decoder = __Decoder;

                fn index_key(
                    &self, at: usize,
                ) -> ::core::result::Result<
                    ::core::option::Option<::tavola_client::EntityKey>, ::tavola_client::Error,
                > {
                    match at {
                        #(#index_keys)*
                        _ => ::core::result::Result::Ok(::core::option::Option::None),
                    }
                }

                fn entity_key(
                    &self,
                ) -> ::core::result::Result<::tavola_client::EntityKey, ::tavola_client::Error> {
                    #key
                }

                #methods
            }
        }
    }

    fn methods(&self) -> TokenStream {
        let private = quote!(::tavola_client::__private);
        let kind = self.kind.iter().map(|kind| {
            let kind = kind.tokens();
            quote! {
                const __KIND: #private::Kind = #kind;
                #private::PropertySink::property(
                    __sink, __KIND.property, ::tavola_client::ValueRef::String(__KIND.text),
                )?;
            }
        });
        let encode = self.fields.iter().filter_map(Field::encode);
        let owned = self.fields.iter().filter(|field| field.is_stored()).map(|field| &field.name);
        let owned = owned.chain(self.kind.iter().map(|kind| &kind.property));
        let owns = self.fields.iter().filter_map(Field::flattened_owns);
        let upgrade = &self.attributes.upgrade;
        let accepts = match &self.kind {
            Some(Kind { name, version, .. }) => quote! {
                __name == #name && __version == #version
                    #(|| <#upgrade as ::tavola_client::Entity>::accepts_kind(__name, __version))*
            },
            None => quote!(false),
        };
        let mirrors = self.fields.iter().filter_map(|field| {
            let ident = field.ident;
            match field.storage {
                Storage::ETag => {
                    Some(quote!(self.#ident = ::core::convert::From::from(__etag.clone());))
                }
                Storage::Timestamp => {
                    Some(quote!(self.#ident = ::core::convert::From::from(__timestamp);))
                }
                _ => None,
            }
        });
        let begin =
            if upgrade.is_empty() { quote!(__Own::new()) } else { quote!(__Decoder::new()) };
        quote! {
            fn encode(
                &self, __sink: &mut dyn #private::PropertySink,
            ) -> ::core::result::Result<(), ::tavola_client::Error> {
                #(#kind)*
                #(#encode)*
                ::core::result::Result::Ok(())
            }

            fn decoder() -> __Decoder { #begin }

            fn owns(&self, __name: &str) -> bool {
                let own = match __name { #(#owned => true,)* _ => false };
                own #(|| #owns)*
            }

            fn accepts_kind(__name: &str, __version: u32) -> bool { #accepts }

            fn mirror(&mut self, __etag: &::tavola_client::ETag, __timestamp: #private::OffsetDateTime) {
                #(#mirrors)*
            }
        }
    }

    fn decoder(&self) -> TokenStream {
        let vis = &self.input.vis;
        let (ident, private) = (&self.input.ident, quote!(::tavola_client::__private));
        let (slots, begun): (Vec<_>, Vec<_>) = self.fields.iter().filter_map(Field::slot).unzip();
        let arms = self.fields.iter().filter_map(Field::arm);
        let takes: Vec<_> = self.fields.iter().filter_map(Field::flattened_takes).collect();
        let values = self.fields.iter().map(Field::value);
        let keys = self.keys.read(self.fields);
        let (mut see, mut check) = (quote!(), quote!());
        if let Some(kind) = &self.kind {
            let (property, tokens) = (&kind.property, kind.tokens());
            see = quote!(#property => self.__kind.see(&#tokens, __value),);
            check = quote!(self.__kind.check(&#tokens)?;);
        }
        let upgrade = if self.attributes.upgrade.is_empty() {
            quote!(
                use __Own as __Decoder;
            )
        } else {
            self.upgrade()
        };
        quote! {
            #vis struct __Own {
                #(#slots,)*
                __kind: #private::KindSlot,
                __rest: #private::Rest,
                __error: ::core::option::Option<::tavola_client::Error>,
            }

            impl __Own {
                fn new() -> Self {
                    Self {
                        #(#begun,)*
                        __kind: ::core::default::Default::default(),
                        __rest: ::std::vec::Vec::new(),
                        __error: ::core::option::Option::None,
                    }
                }
            }

            impl #private::Decoder for __Own {
                type Out = #ident;

                fn property(&mut self, __name: &str, __value: ::tavola_client::ValueRef<'_>) {
                    match __name {
                        #see
                        #(#arms)*
                        _ if false #(|| #takes)* => {}
                        _ => self.__rest.push((__name.to_owned(), __value.to_value())),
                    }
                }

                fn finish(
                    self, __head: &#private::RowHead<'_>,
                ) -> ::core::result::Result<#private::Decoded<#ident>, ::tavola_client::Error> {
                    #check
                    if let ::core::option::Option::Some(error) = self.__error {
                        return ::core::result::Result::Err(error);
                    }
                    let mut __rest = self.__rest;
                    #keys
                    let value = #ident { #(#values),* };
                    ::core::result::Result::Ok(#private::Decoded { value, rest: __rest })
                }
            }

            #upgrade
        }
    }

    /// A decoder that reads older versions as their own types: it chooses when it meets the kind.
    fn upgrade(&self) -> TokenStream {
        let vis = &self.input.vis;
        let (ident, private) = (&self.input.ident, quote!(::tavola_client::__private));
        let older = &self.attributes.upgrade;
        let variants: Vec<_> =
            (0..older.len()).map(|at| quote::format_ident!("Older{at}")).collect();
        let kind = self.kind.iter().map(Kind::tokens);
        quote! {
            #vis enum __Decoder {
                Pending(#private::Pending),
                Own(__Own),
                #(#variants(<#older as ::tavola_client::Entity>::Decoder),)*
            }

            impl __Decoder {
                fn new() -> Self {
                    Self::Pending(::core::default::Default::default())
                }
            }

            impl #private::Decoder for __Decoder {
                type Out = #ident;

                fn property(&mut self, __name: &str, __value: ::tavola_client::ValueRef<'_>) {
                    match self {
                        Self::Own(decoder) => decoder.property(__name, __value),
                        #(Self::#variants(decoder) => decoder.property(__name, __value),)*
                        Self::Pending(pending) => {
                            pending.push(__name, __value);
                            #(const __KIND: #private::Kind = #kind;)*
                            let ::core::option::Option::Some((name, version)) =
                                __KIND.of_property(__name, __value) else { return };
                            *self = match name {
                                #(_ if <#older as ::tavola_client::Entity>::accepts_kind(name, version) =>
                                    Self::#variants(pending.replay(
                                        <#older as ::tavola_client::Entity>::decoder(),
                                    )),)*
                                _ => Self::Own(pending.replay(__Own::new())),
                            };
                        }
                    }
                }

                fn finish(
                    self, head: &#private::RowHead<'_>,
                ) -> ::core::result::Result<#private::Decoded<#ident>, ::tavola_client::Error> {
                    match self {
                        Self::Pending(pending) => pending.replay(__Own::new()).finish(head),
                        Self::Own(decoder) => decoder.finish(head),
                        #(Self::#variants(decoder) => {
                            let older = decoder.finish(head)?;
                            let value = ::core::convert::From::from(older.value);
                            ::core::result::Result::Ok(#private::Decoded { value, rest: older.rest })
                        })*
                    }
                }
            }
        }
    }
}
