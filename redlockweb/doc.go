// Package redlockweb shows the locks of a cluster on a page: whether locks are available, which masters
// do not vote, which callers wait for whom, what looks odd, and all locks.
//
//	page := redlockweb.New(client)
//	defer page.Close()
//	http.ListenAndServe("localhost:8080", page)
//
// redlock watch --http does the same. The page is alive by server-sent events, and readable without script. It takes one
// listing of the locks at a time, however many browsers watch, and none while nobody does, but for some seconds after a request. The client's
// user needs the right +scan.
//
// # Addresses
//
//	/            the page; ?filter=TEXT and ?sort=need|name|since|left|waiters
//	/lock?name=  one lock: its holders, what each master says, its waiters
//	/api/locks   all locks as JSON, with the same filter and sort; /api/nodes: the masters
//	/healthz     200 if a quorum of masters votes, else 503 with the reason (Client.Ping)
//	/metrics     five gauges that no single client knows, for Prometheus
//
// All addresses in the page are relative. To mount it under a path, strip that:
//
//	mux.Handle("/locks/", http.StripPrefix("/locks", page))
//
// # Safety
//
// The page is read-only, unless WithUnlock allows to take locks away. If none of the holders that the page showed has the
// lock any more, nothing is changed, and the answer is 409. The page asks for no password: mount it behind
// a login of your own. A request is refused unless its Host is a loopback name, the address at which
// it arrived, or one of WithHosts: so no foreign site can read the page by a name of its own that resolves
// to it. Names, labels and other text of clients and servers are shown escaped.
//
// # Goroutines
//
// New starts one, which runs the model under the page; Close ends it, and the streams of events.
// All else runs in the goroutines of the server.
package redlockweb
