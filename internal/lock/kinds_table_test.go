package lock_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// kindsTable returns the rows of the table in docs/reference/methods.md that says what each option, and each
// method of a lease, does for each kind of lock: by the name, the cells of the kinds.
func kindsTable(t *testing.T) map[string][]string {
	text, err := os.ReadFile("../../docs/reference/methods.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "## Options and methods of each kind\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := make(map[string][]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.+) \\|$").FindAllStringSubmatch(section, -1) {
		rows[m[1]] = strings.Split(m[2], " | ")
		require.Len(t, rows[m[1]], 4, m[1])
	}
	same := regexp.MustCompile(`(?m)^The same for each kind: (.+)\.$`).FindStringSubmatch(section)
	require.NotNil(t, same)
	for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(same[1], -1) {
		rows[m[1]] = slices.Repeat([]string{"the same"}, 4)
	}
	return rows
}

// acquireKind acquires a lock of each kind, in the order of the table's columns.
var acquireKind = []func(c *redlock.Client, ctx context.Context, opts ...redlock.LockOption) (*redlock.Lease, error){
	func(c *redlock.Client, ctx context.Context, opts ...redlock.LockOption) (*redlock.Lease, error) {
		return c.Mutex("x", opts...).Lock(ctx)
	},
	func(c *redlock.Client, ctx context.Context, opts ...redlock.LockOption) (*redlock.Lease, error) {
		return c.RWMutex("x", opts...).RLock(ctx)
	},
	func(c *redlock.Client, ctx context.Context, opts ...redlock.LockOption) (*redlock.Lease, error) {
		return c.Multi([]string{"x", "y"}, opts...).Lock(ctx)
	},
	func(c *redlock.Client, ctx context.Context, opts ...redlock.LockOption) (*redlock.Lease, error) {
		return c.Semaphore("x", 3, opts...).Acquire(ctx, 2)
	},
}

// lockOptions are the options of a lock, each with a good value.
var lockOptions = map[string]redlock.LockOption{
	"WithTTL":         redlock.WithTTL(5 * time.Second),
	"WithNodeTimeout": redlock.WithNodeTimeout(100 * time.Millisecond),
	"WithDrift":       redlock.WithDrift(0.02, time.Millisecond),
	"WithPrefix":      redlock.WithPrefix("other:"),
	"WithOwnerLabel":  redlock.WithOwnerLabel("me"),
	"WithRenewEvery":  redlock.WithRenewEvery(time.Second),
	"WithoutRenewal":  redlock.WithoutRenewal(),
	"WithMaxHold":     redlock.WithMaxHold(time.Minute),
	"WithMinHold":     redlock.WithMinHold(time.Second),
	"WithLockDelay":   redlock.WithLockDelay(time.Second),
	"WithWait":        redlock.WithWait(time.Minute),
	"WithBackoff":     redlock.WithBackoff(func(int) time.Duration { return time.Millisecond }),
	"WithReentry":     redlock.WithReentry(),
	"WithWanted":      redlock.WithWanted(),
	"WithAnnounce":    redlock.WithAnnounce(),
	"WithoutFencing":  redlock.WithoutFencing(),
}

func TestTableOfKindsIsTrueOfEachOption(t *testing.T) {
	rows := kindsTable(t)
	for _, name := range optionNames(t) {
		require.Contains(t, lockOptions, name)
		require.Contains(t, rows, name, "docs/reference/methods.md")
		for kind, acquire := range acquireKind {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				lease, err := acquire(net.Client(), t.Context(), lockOptions[name])
				if rows[name][kind] == "`ErrConfig`" {
					require.ErrorIs(t, err, redlock.ErrConfig, "%s, kind %d", name, kind)
					return
				}
				require.NoError(t, err, "%s, kind %d", name, kind)
				require.NoError(t, lease.Extend(t.Context()), "%s, kind %d", name, kind)
				require.NoError(t, lease.Unlock(t.Context()), "%s, kind %d", name, kind)
			})
		}
	}
}

func TestTableOfKindsIsTrueOfEachMethod(t *testing.T) {
	rows := kindsTable(t)
	calls := map[string]func(l *redlock.Lease, ctx context.Context) error{
		"Downgrade": (*redlock.Lease).Downgrade,
		"Transfer":  func(l *redlock.Lease, ctx context.Context) error { _, err := l.Transfer(ctx); return err },
		"Extend":    (*redlock.Lease).Extend,
		"ExtendTo":  func(l *redlock.Lease, ctx context.Context) error { return l.ExtendTo(ctx, 20*time.Second) },
		"Unlock":    (*redlock.Lease).Unlock,
	}
	texts := map[string][]any{ // what methods without errors return, by kind
		"Shared":  {false, true, false, false},
		"Name":    {"x", "x", "x, y", "x"},
		"Permits": {0, 0, 0, 2},
		"Names":   {1, 1, 2, 1},
	}
	typ := reflect.TypeFor[*redlock.Lease]()
	for i := range typ.NumMethod() {
		name := typ.Method(i).Name
		require.Contains(t, rows, name, "docs/reference/methods.md")
		for kind, acquire := range acquireKind {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				lease, err := acquire(net.Client(), t.Context())
				require.NoError(t, err)
				if call := calls[name]; call != nil {
					err := call(lease, t.Context())
					require.Equal(t, rows[name][kind] == "`ErrConfig`", errors.Is(err, redlock.ErrConfig), "%s, kind %d: %v", name, kind, err)
				} else {
					require.NotContains(t, rows[name][kind], "ErrConfig", name)
				}
				if want := texts[name]; want != nil {
					got := reflect.ValueOf(lease).Method(i).Call(nil)[0]
					if got.Kind() == reflect.Slice {
						require.Equal(t, want[kind], got.Len(), "%s, kind %d", name, kind)
					} else {
						require.Equal(t, want[kind], got.Interface(), "%s, kind %d", name, kind)
					}
				}
				require.NoError(t, lease.Unlock(t.Context()))
			})
		}
		delete(rows, name)
	}
	for name := range maps.Keys(rows) {
		require.Contains(t, lockOptions, name, "docs/reference/methods.md has a row for what does not exist")
	}
}

// optionNames returns the functions of the root that return an Option or a LockOption.
func optionNames(t *testing.T) (names []string) {
	for _, file := range []string{"../../options.go", "../../lockoptions.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "With") {
				continue
			}
			if result, _ := f.Type.Results.List[0].Type.(*ast.Ident); result != nil && (result.Name == "Option" || result.Name == "LockOption") {
				names = append(names, f.Name.Name)
			}
		}
	}
	require.Greater(t, len(names), 10)
	return names
}
