//! The lines to paste: each is a whole program that lists the tables.

use std::time::Duration;

use tavola_core::DateTime;
use tavola_core::time::TICKS_PER_SECOND;
use tavola_protocol::auth::AccountSas;
use zeroize::Zeroizing;

use crate::account_access::AccountAccess;
use crate::exit::Failure;
use crate::human_time;

/// Validity of the signature that is used where there is no library.
const SIGNATURE_TIME: Duration = Duration::from_secs(24 * 3600);

/// A library, and how it connects. `{string}` and `{url}` are filled in.
pub(super) struct Sdk {
    pub(super) name: &'static str,
    template: &'static str,
}

/// Every library, official ones first.
pub(super) const SDKS: &[Sdk] = &[
    Sdk {
        name: "python",
        template: r#"# pip install azure-data-tables
from azure.data.tables import TableServiceClient
service = TableServiceClient.from_connection_string("{string}")
for table in service.list_tables():
    print(table.name)
"#,
    },
    Sdk {
        name: "javascript",
        template: r#"// npm install @azure/data-tables; a file whose name ends with .mjs
import { TableServiceClient } from "@azure/data-tables";
const service = TableServiceClient.fromConnectionString("{string}"{insecure});
for await (const table of service.listTables()) console.log(table.name);
"#,
    },
    Sdk {
        name: "go",
        template: r#"package main // go get github.com/Azure/azure-sdk-for-go/sdk/data/aztables
import ("context"; "fmt"; "github.com/Azure/azure-sdk-for-go/sdk/data/aztables")
func main() {
	service, err := aztables.NewServiceClientFromConnectionString("{string}", nil); if err != nil { panic(err) }
	page, err := service.NewListTablesPager(nil).NextPage(context.Background()); if err != nil { panic(err) }
	for _, table := range page.Tables { fmt.Println(*table.Name) } }
"#,
    },
    Sdk {
        name: "java",
        template: r#"import com.azure.data.tables.TableServiceClientBuilder; // com.azure:azure-data-tables
class Tables { public static void main(String[] arguments) {
    var service = new TableServiceClientBuilder().connectionString("{string}").buildClient();
    service.listTables().forEach(table -> System.out.println(table.getName()));
} }
"#,
    },
    Sdk {
        name: "dotnet",
        template: r#"// dotnet add package Azure.Data.Tables
using Azure.Data.Tables;
var service = new TableServiceClient("{string}");
await foreach (var table in service.QueryAsync()) Console.WriteLine(table.Name);
"#,
    },
    Sdk {
        name: "rust",
        template: r#"// cargo add reqwest --features blocking; no official crate knows tables, so this is a signature that lists and reads for a day
fn main() -> Result<(), reqwest::Error> {
    let request = reqwest::blocking::Client::new().get("{url}");
    println!("{}", request.header("Accept", "application/json;odata=nometadata").send()?.error_for_status()?.text()?);
    Ok(())
}
"#,
    },
    Sdk {
        name: "curl",
        template: r#"# with a signature that lists and reads for a day; `tavola sas` makes others
url='{url}'
curl -sS --fail-with-body -H 'Accept: application/json;odata=nometadata' "$url"
"#,
    },
];

/// The lines of one library.
pub(super) struct Snippet {
    pub(super) sdk: &'static str,
    pub(super) text: Zeroizing<String>,
}

impl Snippet {
    pub(super) fn of(
        sdk: &'static Sdk,
        string: &str,
        access: &AccountAccess,
    ) -> Result<Self, Failure> {
        // The JavaScript library sends nothing over http by default.
        let insecure =
            if access.endpoint.is_https() { "" } else { ", { allowInsecureConnection: true }" };
        let mut text = sdk.template.replace("{insecure}", insecure).replace("{string}", string);
        if text.contains("{url}") {
            text = text.replace("{url}", &tables_url(access)?);
        }
        Ok(Self { sdk: sdk.name, text: Zeroizing::new(text) })
    }
}

/// The list of tables, for programs that cannot sign requests.
fn tables_url(access: &AccountAccess) -> Result<String, Failure> {
    let ticks = human_time::now().ticks() + SIGNATURE_TIME.as_secs() * TICKS_PER_SECOND;
    let expiry = DateTime::from_ticks(ticks - ticks % TICKS_PER_SECOND).unwrap_or(DateTime::MAX);
    let sas = AccountSas {
        version: "2019-02-02".to_owned(),
        services: "t".to_owned(),
        resource_types: "sco".to_owned(),
        permissions: "rl".to_owned(),
        expiry: expiry.to_string(),
        ..AccountSas::default()
    };
    Ok(format!(
        "{}/Tables?{}",
        access.endpoint,
        sas.signed(&access.account, &access.signing_key()?)
    ))
}
