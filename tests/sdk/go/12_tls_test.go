package sdk

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// listTables makes this program, when it is started again, list the tables of the https server and nothing else.
const listTables = "TAVOLA_TEST_LIST_TABLES"

func TestMain(m *testing.M) {
	if os.Getenv(listTables) == "" {
		os.Exit(m.Run())
	}
	t := &testing.T{}
	pages, err := all(withKey(t, httpsEndpoint, key, options).NewListTablesPager(nil))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, page := range pages {
		for _, table := range page.Tables {
			fmt.Println(*table.Name)
		}
	}
}

// noted is a transport that notes with which protocol it is answered.
type noted struct {
	http.RoundTripper
	protocols map[string]bool
}

func (n noted) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.RoundTripper.RoundTrip(request)
	if err == nil {
		n.protocols[response.Proto] = true
	}
	return response, err
}

// refusedConnection expects that there is no connection, because of the certificate.
func refusedConnection(t *testing.T, client *aztables.ServiceClient) {
	t.Helper()
	_, err := all(client.NewListTablesPager(nil))
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("want an unknown authority, got %v", err)
	}
}

func Test12TLS(t *testing.T) {
	needsServer(t)
	keys := map[string]string{"key 1": key, "key 2": key2}

	for keyName, key := range keys {
		for _, host := range []string{"127.0.0.1", "localhost"} {
			for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
				name := fmt.Sprintf("every operation: %s, %s, %s", keyName, host, protocol)
				t.Run(name, func(t *testing.T) {
					owner, name := httpsTable(t)
					transport := trusting(t, caFile)
					if protocol == "HTTP/1.1" {
						transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
					}
					noting := noted{transport, map[string]bool{}}
					endpoint := strings.Replace(httpsEndpoint, "127.0.0.1", host, 1)
					client := withKey(t, endpoint, key, through(noting))
					checkOutcomes(t, owner, client, name, everyOperation(okay))
					equal(t, noting.protocols, map[string]bool{protocol: true})
				})
			}
		}
	}

	t.Run("pages and large bodies", func(t *testing.T) {
		owner, name := httpsTable(t)
		table, wanted := tableOf(owner, name), []string{}
		for range 3 {
			batch := []aztables.TransactionAction{}
			for range 100 {
				rowKey := fmt.Sprintf("%03d", len(wanted))
				wanted = append(wanted, "p"+rowKey)
				batch = append(batch, action(add, entity("p", rowKey, props{"Text": strings.Repeat("x", 30_000)})))
			}
			ok(t, submit(table, batch...))
		}
		equal(t, joinedKeys(must(table.find(&aztables.ListEntitiesOptions{Top: to.Ptr(int32(70))}))(t)), wanted)
	})

	t.Run("an authority that is not trusted", func(t *testing.T) {
		refusedConnection(t, withKey(t, httpsEndpoint, key, options))
	})

	t.Run("another authority", func(t *testing.T) {
		folder := t.TempDir()
		tavola(t, connectionString, "cert", "--authority", "--out", folder)
		transport := trusting(t, filepath.Join(folder, "ca.pem"))
		refusedConnection(t, withKey(t, httpsEndpoint, key, through(transport)))
	})

	// What `tavola cert` recommends. A program reads the variable when it starts.
	t.Run("trust by variable", func(t *testing.T) {
		_, name := httpsTable(t)
		list := func(file string) (string, error) {
			command := exec.Command(must(os.Executable())(t))
			command.Env = append(os.Environ(), listTables+"=yes", "SSL_CERT_FILE="+file, "SSL_CERT_DIR="+t.TempDir())
			output, err := command.Output()
			return string(output), err
		}
		output, err := list(caFile)
		ok(t, err)
		equal(t, slices.Contains(strings.Fields(output), name), true)
		output, err = list(filepath.Join(t.TempDir(), "none.pem"))
		equal(t, err != nil && strings.Contains(output, "x509: certificate signed by unknown authority"), true)
	})

	for keyName, key := range keys {
		t.Run("signatures for https only: "+keyName, func(t *testing.T) {
			owner, name := httpsTable(t)
			trust := through(trusting(t, caFile))
			values := aztables.SASSignatureValues{
				TableName: name, Permissions: "raud", Protocol: aztables.SASProtocolHTTPS,
			}
			client := withSas(t, httpsEndpoint, tableSas(t, values, key), trust)
			checkOutcomes(t, owner, client, name, allowedBy("raud"))

			// The SDK's own URL is for https only.
			url := must(withKey(t, httpsEndpoint, key, trust).GetAccountSASURL(
				aztables.AccountSASResourceTypes{Service: true}, aztables.AccountSASPermissions{List: true},
				inMinutes(-1), time.Now().Add(time.Hour)))(t)
			equal(t, strings.Contains(url, "spr=https"), true)
			lister := must(aztables.NewServiceClientWithNoCredential(url, trust))(t)
			equal(t, slices.Contains(tableNames(t, lister), name), true)
		})
	}

	t.Run("our signatures for https only", func(t *testing.T) {
		owner, name := httpsTable(t)
		text := "AccountName=" + account + ";AccountKey=" + key2 + ";TableEndpoint=" + httpsEndpoint + ";"
		sas := tavola(t, text,
			"sas", "table", name, "--permissions", "raud", "--expires-in", "1h", "--https-only", "-o", "sas")
		equal(t, strings.Contains(sas, "spr=https"), true)
		client := withSas(t, httpsEndpoint, sas, through(trusting(t, caFile)))
		checkOutcomes(t, owner, client, name, allowedBy("raud"))
		equal(t, listing(t, tableOf(withSas(t, endpoint, sas, options), name)) != okay, true)
	})
}
