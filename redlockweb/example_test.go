package redlockweb_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
	"github.com/redlock-go/redlock/redlockweb"
)

// open makes a client over embedded nodes. A program has redlock.Open and the URLs of its own servers.
func open(opts ...redlock.ClientOption) (*redlock.Client, func()) {
	nodes, err := redlocktest.New(3)
	if err != nil {
		panic(err)
	}
	client, err := redlock.Open(nodes.URLs(), append(opts, redlock.WithRestartGuard(0))...)
	if err != nil {
		panic(err)
	}
	return client, func() {
		_ = client.Close()
		nodes.Close()
	}
}

func ExampleNew() {
	client, end := open()
	defer end()
	page := redlockweb.New(client)
	defer page.Close()
	server := httptest.NewServer(page) // a program calls http.ListenAndServe("localhost:8080", page)
	defer server.Close()

	answer, err := http.Get(server.URL + "/healthz")
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	fmt.Print(answer.StatusCode, " ", string(text))
	// Output: 200 ok
}

// The page stands under a path of a program's server, behind the login that the program has.
func ExampleHandler() {
	client, end := open()
	defer end()
	page := redlockweb.New(client, redlockweb.WithTitle("prod-eu"), redlockweb.WithHosts("ops.example.com"))
	defer page.Close()

	login := func(next http.Handler) http.Handler { return next } // yours
	mux := http.NewServeMux()
	mux.Handle("/locks/", login(http.StripPrefix("/locks", page)))

	for _, host := range []string{"ops.example.com", "evil.example.com"} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://"+host+"/locks/healthz", nil))
		fmt.Println(host, answer.Code)
	}
	// Output:
	// ops.example.com 200
	// evil.example.com 403
}

func ExampleWithUnlock() {
	client, end := open()
	defer end()
	page := redlockweb.New(client, redlockweb.WithUnlock())
	defer page.Close()

	// A request that does not come from the page's own form is refused.
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "http://localhost/unlock?name=backup", nil))
	fmt.Print(answer.Code, " ", answer.Body)
	// Output: 403 the request does not say from which page it comes
}

func ExampleRoundTrips() {
	trips := &redlockweb.RoundTrips{}
	client, end := open(redlock.WithTrace(&redlock.Trace{BallotVote: trips.BallotVote}))
	defer end()
	page := redlockweb.New(client, redlockweb.WithRoundTrips(trips))
	defer page.Close()
	server := httptest.NewServer(page)
	defer server.Close()

	answer, err := http.Get(server.URL + "/api/nodes") // round_trip_s of each node
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	fmt.Println(answer.StatusCode, answer.Header.Get("Content-Type"))
	// Output: 200 application/json
}
