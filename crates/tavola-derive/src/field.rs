//! The fields of a struct: how each is stored, written and read.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Data, DataStruct, DeriveInput, Error, Fields, GenericArgument, Ident, PathArguments, Result,
    Type, Visibility,
};

use crate::attributes::FieldAttributes;
use crate::case::{Case, plain, screaming};

/// A field, and what becomes of it.
pub(crate) struct Field<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) ty: &'a Type,
    pub(crate) vis: &'a Visibility,
    pub(crate) attributes: FieldAttributes,
    /// The property's name.
    pub(crate) name: String,
    pub(crate) storage: Storage,
    /// The field is a part of the key.
    pub(crate) key: Key,
}

/// How a field is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    Property,
    Text,
    Json,
    Flatten,
    Rest,
    Nothing,
    ETag,
    Timestamp,
}

/// Whether a field is a part of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    No,
    /// Its value is read from the key.
    Part,
    /// The key has it in lower case; the property has the value.
    Lower,
}

/// The named fields of a struct.
pub(crate) fn fields_of(input: &DeriveInput) -> Result<impl Iterator<Item = &syn::Field>> {
    if !input.generics.params.is_empty() {
        let message = "this type is one shape of row, so it has no parameters";
        return Err(Error::new(input.generics.span(), message));
    }
    match &input.data {
        Data::Struct(DataStruct { fields: Fields::Named(fields), .. }) => Ok(fields.named.iter()),
        _ => Err(Error::new(input.ident.span(), "this must be a struct with named fields")),
    }
}

impl<'a> Field<'a> {
    pub(crate) fn new(field: &'a syn::Field, case: Case) -> Result<Self> {
        let ident = field.ident.as_ref().ok_or_else(|| Error::new(field.span(), "a name"))?;
        let attributes = FieldAttributes::parse(&field.attrs)?;
        let text = plain(ident);
        let name = match &attributes.rename {
            Some(name) => name.value(),
            None => case.apply(&text),
        };
        let storage = storage(ident, &attributes)?;
        let stored = matches!(storage, Storage::Property | Storage::Text | Storage::Json);
        if stored {
            let span = attributes.rename.as_ref().map_or(ident.span(), |name| name.span());
            check_name(&name, span)?;
        } else if let Some(rename) = &attributes.rename {
            return Err(Error::new(rename.span(), "there is no property here to be named"));
        }
        check_encrypt(ident, &attributes, storage)?;
        if let (Some(prefix), false) = (&attributes.prefix, attributes.flatten) {
            return Err(Error::new(prefix.span(), "`prefix` belongs to `flatten`"));
        }
        Ok(Self { ident, ty: &field.ty, vis: &field.vis, attributes, name, storage, key: Key::No })
    }

    /// True if the field has a property of its own.
    pub(crate) fn is_stored(&self) -> bool {
        let property = matches!(self.storage, Storage::Property | Storage::Text | Storage::Json);
        property && (self.key != Key::Part || self.attributes.store)
    }

    fn prefix(&self) -> String {
        self.attributes.prefix.as_ref().map(syn::LitStr::value).unwrap_or_default()
    }

    /// What the decoder keeps of the field, and how it begins.
    pub(crate) fn slot(&self) -> Option<(TokenStream, TokenStream)> {
        let Self { ident, ty, .. } = self;
        match self.storage {
            Storage::Flatten => Some((
                quote_spanned!(ty.span()=> #ident: <#ty as ::tavola_client::Properties>::Decoder),
                quote_spanned!(ty.span()=> #ident: <#ty as ::tavola_client::Properties>::decoder()),
            )),
            _ if self.is_stored() && self.key != Key::Part => Some((
                quote!(#ident: ::core::option::Option<#ty>),
                quote!(#ident: ::core::option::Option::None),
            )),
            _ => None,
        }
    }

    /// The arm that takes the property.
    pub(crate) fn arm(&self) -> Option<TokenStream> {
        let Self { ident, ty, name, .. } = self;
        if !self.is_stored() {
            return None;
        }
        if self.key == Key::Part {
            return Some(quote!(#name => {}));
        }
        let places = quote!(&mut self.#ident, &mut self.__error, __name, __value);
        let private = quote!(::tavola_client::__private);
        let (inner, wrap) = match optional(ty) {
            Some(inner) => (inner, quote!(.map(::core::option::Option::Some))),
            None => (*ty, quote!()),
        };
        Some(match self.storage {
            Storage::Text => quote_spanned! {ty.span()=>
                #name => #private::fill_text(#places, |__text| #private::parse::<#inner>(__text) #wrap),
            },
            Storage::Json => quote_spanned! {ty.span()=>
                #name => #private::fill_text(#places, |__text| #private::from_json::<#inner>(__text) #wrap),
            },
            _ => quote_spanned!(ty.span()=> #name => #private::fill::<#ty>(#places),),
        })
    }

    /// The condition under which a flattened type takes the property.
    pub(crate) fn flattened_takes(&self) -> Option<TokenStream> {
        let (Self { ident, .. }, prefix) = (self, self.prefix());
        (self.storage == Storage::Flatten).then(|| {
            quote! {
                __name.strip_prefix(#prefix).is_some_and(|__inner| {
                    ::tavola_client::__private::PropertiesDecoder::property(
                        &mut self.#ident, __inner, __value,
                    )
                })
            }
        })
    }

    /// The condition under which the name is one of a flattened type's.
    pub(crate) fn flattened_owns(&self) -> Option<TokenStream> {
        let (Self { ty, .. }, prefix) = (self, self.prefix());
        (self.storage == Storage::Flatten).then(|| {
            quote! {
                __name.strip_prefix(#prefix).is_some_and(<#ty as ::tavola_client::Properties>::owns)
            }
        })
    }

    /// Writes the field.
    pub(crate) fn encode(&self) -> Option<TokenStream> {
        let Self { ident, ty, name, .. } = self;
        let private = quote!(::tavola_client::__private);
        let take = match self.attributes.encrypt {
            Some(_) => quote!(encrypted),
            None => quote!(property),
        };
        let push = |text: TokenStream| {
            quote! {
                let __text = #text;
                #private::PropertySink::#take(
                    __sink, #name, ::tavola_client::ValueRef::String(&__text),
                )?;
            }
        };
        let each = |text: &dyn Fn(TokenStream) -> TokenStream| match optional(ty) {
            Some(_) => {
                let push = push(text(quote!(__inner)));
                quote!(if let ::core::option::Option::Some(__inner) = &self.#ident { #push })
            }
            None => {
                let push = push(text(quote!(&self.#ident)));
                quote!({ #push })
            }
        };
        Some(match self.storage {
            Storage::Flatten => {
                let prefix = self.prefix();
                quote_spanned! {ty.span()=>
                    <#ty as ::tavola_client::Properties>::encode(
                        &self.#ident, &mut #private::Prefixed::new(#prefix, __sink),
                    )?;
                }
            }
            Storage::Rest => quote! {
                for (__name, __value) in &self.#ident {
                    #private::PropertySink::property(__sink, __name, __value.as_ref())?;
                }
            },
            _ if !self.is_stored() => return None,
            Storage::Text => each(&|value| quote!(::std::string::ToString::to_string(#value))),
            Storage::Json => each(&|value| quote!(#private::to_json(#value, #name)?)),
            _ => quote_spanned! {ty.span()=>
                if let ::core::option::Option::Some(__value) =
                    <#ty as ::tavola_client::PropertyType>::to_property(&self.#ident)
                {
                    #private::PropertySink::#take(__sink, #name, __value)?;
                }
            },
        })
    }

    /// The field's value at the end of a row; those of the key are variables of the same name.
    pub(crate) fn value(&self) -> TokenStream {
        let Self { ident, ty, name, .. } = self;
        let private = quote!(::tavola_client::__private);
        let value = match (self.storage, self.key) {
            (_, Key::Part) => return quote!(#ident),
            (_, Key::Lower) => quote!(self.#ident.unwrap_or(#ident)),
            (Storage::Flatten, _) => quote!(#private::PropertiesDecoder::finish(self.#ident)?),
            (Storage::Rest, _) => quote!(::core::mem::take(&mut __rest)),
            (Storage::Nothing, _) => quote!(::core::default::Default::default()),
            (Storage::ETag, _) => quote!(::core::convert::From::from(__head.etag.clone())),
            (Storage::Timestamp, _) => quote!(::core::convert::From::from(__head.timestamp)),
            _ if self.attributes.default => quote!(self.#ident.unwrap_or_default()),
            (Storage::Text | Storage::Json, _) if optional(ty).is_some() => {
                quote!(self.#ident.unwrap_or_default())
            }
            (Storage::Text | Storage::Json, _) => quote!(#private::take_text(self.#ident, #name)?),
            _ => quote_spanned!(ty.span()=> #private::take::<#ty>(self.#ident, #name)?),
        };
        quote!(#ident: #value)
    }

    /// The entry in the tree of names.
    pub(crate) fn name_entry(&self) -> Option<TokenStream> {
        let Self { ty, name, .. } = self;
        if self.storage == Storage::Flatten {
            let prefix = self.prefix();
            return Some(quote_spanned! {ty.span()=>
                ::tavola_client::__private::Name::Flattened {
                    prefix: #prefix,
                    names: <#ty as ::tavola_client::Properties>::NAMES,
                }
            });
        }
        self.is_stored().then(|| quote!(::tavola_client::__private::Name::One(#name)))
    }

    /// The entry in the tree of names of what is encrypted.
    pub(crate) fn encrypted_entry(&self) -> Option<TokenStream> {
        let Self { ty, name, .. } = self;
        if self.storage == Storage::Flatten {
            let prefix = self.prefix();
            return Some(quote_spanned! {ty.span()=>
                ::tavola_client::__private::Name::Flattened {
                    prefix: #prefix,
                    names: <#ty as ::tavola_client::Properties>::ENCRYPTED,
                }
            });
        }
        self.attributes.encrypt.map(|_| quote!(::tavola_client::__private::Name::One(#name)))
    }

    /// The column of the field.
    pub(crate) fn column(&self) -> Option<TokenStream> {
        let Self { ident, ty, vis, name, .. } = self;
        let text = plain(ident);
        let constant = format_ident!("{}", screaming(&text));
        let filter = quote!(::tavola_client::filter);
        if self.storage == Storage::Flatten {
            let prefix = self.prefix();
            let doc = format!("The properties of `{text}`.");
            return Some(quote! {
                #[doc = #doc]
                #[allow(dead_code, reason = "no program uses all of them")]
                #vis const #constant: #filter::Flattened<Self, #ty> = #filter::Flattened::new(#prefix);
            });
        }
        let (of, kind) = match (self.storage, optional(ty)) {
            (Storage::Json, _) => (quote!(#ty), quote!(#filter::Json)),
            (Storage::Text, Some(_)) => {
                (quote!(::core::option::Option<::std::string::String>), quote!(#filter::Comparable))
            }
            (Storage::Text, None) => (quote!(::std::string::String), quote!(#filter::Comparable)),
            _ => (quote!(#ty), quote!(#filter::Comparable)),
        };
        let kind = match self.attributes.encrypt {
            Some(_) => quote!(#filter::Encrypted),
            None => kind,
        };
        let doc = format!("The property `{name}`.");
        self.is_stored().then(|| {
            quote! {
                #[doc = #doc]
                #[allow(dead_code, reason = "no program uses all of them")]
                #vis const #constant: ::tavola_client::Column<Self, #of, #kind> =
                    ::tavola_client::Column::new(#name);
            }
        })
    }
}

/// What an attribute says about how the field is stored; two that exclude each other are an error.
fn storage(ident: &Ident, attributes: &FieldAttributes) -> Result<Storage> {
    let said = [
        (attributes.skip, "skip", Storage::Nothing),
        (attributes.as_string, "as", Storage::Text),
        (attributes.json, "json", Storage::Json),
        (attributes.flatten, "flatten", Storage::Flatten),
        (attributes.rest, "rest", Storage::Rest),
        (attributes.etag, "etag", Storage::ETag),
        (attributes.timestamp, "timestamp", Storage::Timestamp),
    ];
    let mut said = said.into_iter().filter(|(is, ..)| *is);
    match (said.next(), said.next()) {
        (None, _) => Ok(Storage::Property),
        (Some((_, _, storage)), None) => Ok(storage),
        (Some((_, first, _)), Some((_, second, _))) => {
            let message = format!("`{first}` and `{second}` exclude each other on `{ident}`");
            Err(Error::new(ident.span(), message))
        }
    }
}

/// Refuses `encrypt` where no value of its own is stored, or where it must be readable.
fn check_encrypt(ident: &Ident, attributes: &FieldAttributes, storage: Storage) -> Result<()> {
    let Some(span) = attributes.encrypt else { return Ok(()) };
    let message = match storage {
        Storage::Flatten => "the fields of the flattened type say themselves what is encrypted",
        Storage::Rest => "what the type does not know stays as it was read, encrypted or not",
        Storage::Nothing | Storage::ETag | Storage::Timestamp => "no value is stored here",
        _ if attributes.write_id => "the id of a write must be readable to decide a lost reply",
        _ if attributes.partition.is_some() || attributes.row.is_some() => {
            return Err(encrypted_key(ident, span));
        }
        _ => return Ok(()),
    };
    Err(Error::new(span, format!("`{ident}` cannot be encrypted: {message}")))
}

/// The service reads keys.
pub(crate) fn encrypted_key(ident: &Ident, span: Span) -> Error {
    let message = format!(
        "`{ident}` is a part of a key, so that it cannot be encrypted: the service stores and sorts keys \
         as they are; take another field for the key, for example a hash of this one"
    );
    Error::new(span, message)
}

/// The rules for names of properties that can be checked here.
pub(crate) fn check_name(name: &str, span: Span) -> Result<()> {
    let system = matches!(name, "PartitionKey" | "RowKey" | "Timestamp");
    let identifier = name.chars().all(|character| character.is_alphanumeric() || character == '_')
        && name.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let message = if system {
        format!(
            "`{name}` is a property of the service's own; name the property otherwise with `rename`"
        )
    } else if name.starts_with("tv_") {
        format!(
            "`{name}` begins with `tv_`, as the library's own properties do; name it otherwise with `rename`"
        )
    } else if !identifier {
        format!(
            "`{name}` cannot name a property: a letter or `_` first, then letters, digits and `_`"
        )
    } else if name.encode_utf16().count() > 255 {
        "the name of a property has at most 255 characters".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::new(span, message))
}

/// Refuses the primitive types that no property has, with one message instead of many.
pub(crate) fn check_types(fields: &[Field<'_>]) -> Result<()> {
    const OTHERS: [&str; 13] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i128", "isize", "f32", "char",
        "str",
    ];
    let plain =
        fields.iter().filter(|field| field.storage == Storage::Property && field.is_stored());
    for field in plain {
        let ty = optional(field.ty).unwrap_or(field.ty);
        let Type::Path(path) = ty else { continue };
        let Some(name) = path.path.get_ident().map(ToString::to_string) else { continue };
        if OTHERS.contains(&name.as_str()) {
            let message = format!(
                "`{name}` is not the type of a table property: it has String, i32, i64, f64, bool, \
                 OffsetDateTime, Uuid, Bytes, Vec<u8>, or an Option of these; others are stored with \
                 `#[entity(as = \"string\")]` or `#[entity(json)]`"
            );
            return Err(Error::new(ty.span(), message));
        }
    }
    Ok(())
}

/// What an `Option` holds, if the type is written as one.
pub(crate) fn optional(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match (last.ident == "Option", arguments.args.first()?) {
        (true, GenericArgument::Type(inner)) => Some(inner),
        _ => None,
    }
}

/// True if the type is written as `String`.
pub(crate) fn is_string(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "String")
}
