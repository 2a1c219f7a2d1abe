// Package options is not compiled: the compiler refuses each line that says so, and no other.
package options

import "github.com/redlock-go/redlock"

func calls(c *redlock.Client, ofClient redlock.ClientOption, ofLock redlock.LockOption, ofBoth redlock.Option) {
	_, _ = redlock.Open(nil, ofClient, ofBoth)
	_, _ = redlock.New(nil, ofClient, ofBoth)
	_, _ = redlock.Open(nil, ofLock) // refused
	_, _ = redlock.New(nil, ofLock)  // refused

	c.Mutex("x", ofLock, ofBoth)
	c.RWMutex("x", ofLock, ofBoth)
	c.Multi([]string{"x"}, ofLock, ofBoth)
	c.Semaphore("x", 1, ofLock, ofBoth)
	_, _ = c.Resume(nil, "", ofLock, ofBoth)
	c.Mutex("x", ofClient)                    // refused
	c.RWMutex("x", ofClient)                  // refused
	c.Multi([]string{"x"}, ofClient)          // refused
	c.Semaphore("x", 1, ofClient)             // refused
	_, _ = c.Resume(nil, "", ofClient)        // refused
	c.Mutex("x", redlock.WithLogger(nil))     // refused
	c.Mutex("x", redlock.WithTrace(nil))      // refused
	c.Mutex("x", redlock.WithRestartGuard(0)) // refused
}

type mine struct{}

var _ redlock.ClientOption = mine{} // refused
var _ redlock.LockOption = mine{}   // refused
