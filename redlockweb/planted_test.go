package redlockweb_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/planted"
	"github.com/redlock-go/redlock/internal/test/testnet"
	"github.com/redlock-go/redlock/redlockweb"
)

// The page shows each planted state in the order of the table that the terminal's test has too, with its words, and as Inspect
// has it.
func TestPlantedStatesShowOnThePage(t *testing.T) {
	testnet.InBubble(t, planted.Masters, func(t *testing.T, net *testnet.Net) {
		planted.Plant(t, net)
		client := net.Client()
		page := redlockweb.New(client, redlockweb.WithClock(net.Clock.Now))
		defer page.Close()
		look := func() string {
			t.Helper()
			answer := httptest.NewRecorder()
			page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
			require.Equal(t, http.StatusOK, answer.Code)
			return answer.Body.String()
		}
		look()
		planted.Settle()
		for i := range planted.Clusters {
			cluster := &planted.Clusters[i]
			look() // the model looks on for some seconds after it
			cluster.Enter(net)
			body := look()
			for _, shown := range cluster.Shows {
				assert.Contains(t, plain(body), shown, cluster.Planted)
			}
			cluster.RequireRows(t, client, rowsOf(t, body), func(begun time.Time) string {
				return fmt.Sprintf(`data-ago="%d"`, begun.UnixMilli())
			})
		}
	})
}

var (
	tag      = regexp.MustCompile(`<[^>]*>`)
	bodies   = regexp.MustCompile(`(?s)<tbody role="rowgroup" id="(waiting|odd|rows)">(.*?)</tbody>`)
	tableRow = regexp.MustCompile(`(?s)<tr role="row" data-key="[^"]*".*?</tr>`)
	title    = regexp.MustCompile(`(?s)<th scope="row"[^>]*>(.*?)</th>`)
)

// plain returns the text of HTML.
func plain(text string) string { return html.UnescapeString(tag.ReplaceAllString(text, "")) }

// rowsOf returns the rows of the table of all, each with what stands in the lists before it. In those, too, the order is that of
// the table.
func rowsOf(t *testing.T, body string) (rows []planted.Row) {
	t.Helper()
	listed := map[string][]string{} // by the table
	texts := map[string]string{}    // by title
	for _, table := range bodies.FindAllStringSubmatch(body, -1) {
		for _, row := range tableRow.FindAllString(table[2], -1) {
			name := plain(title.FindStringSubmatch(row)[1])
			listed[table[1]] = append(listed[table[1]], name)
			texts[name] += plain(row) + "\n" + row
		}
	}
	assert.Equal(t, listed["rows"][:3], listed["waiting"])
	assert.Equal(t, listed["rows"][3:8], listed["odd"])
	for _, name := range listed["rows"] {
		rows = append(rows, planted.Row{Title: name, Text: texts[name]})
	}
	return rows
}
