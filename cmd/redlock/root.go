package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/peek"
)

const nodesEnv = "REDLOCK_NODES"

// settings are the flags that all commands share.
type settings struct {
	nodes       []string
	prefix      string
	nodeTimeout time.Duration
	guard       time.Duration
	guardGiven  bool
	verbose     bool
	quiet       bool   // the log says nothing as long as locks are available
	showsNodes  bool   // the command's output says which nodes do not vote
	also        string // the address of a server that is used beside the nodes; "": none
	login       loginFlags
	tls         tlsFlags
}

func newRoot() *cobra.Command {
	s := &settings{}
	root := &cobra.Command{
		Use:   "redlock",
		Short: "Locks over several independent Redis masters, for shells, cron and operators",
		Long: `redlock runs commands under a lock that a majority of independent Redis masters (the
nodes) must grant, so any minority of them may fail. It also shows locks and
their holders, examines the nodes, and measures them.

Nodes are URLs: redis://[user:password@]host[:port][/db], rediss:// for TLS (valkey://
and valkeys:// are the same), or unix:///path/to/socket. A URL with TLS may end with
?ca=file&cert=file&key=file&servername=name; the flags --tls-… say that for all of them.
redis://user@host?passwordfile=file, or --password-file, has the password in a file of one line, which is read at
each new connection: so it can be changed while redlock runs. Give all of them, always, the same to every client: the
majority is counted over this list, and nodes remember how many they are. Put them into
` + nodesEnv + ` rather than on the command line where they have passwords: a command line can be
read by every user of the machine. Commands under redlock run inherit it. redlock never prints passwords.

Messages of redlock itself, on stderr, begin with "redlock:". Colours need a terminal, and an empty NO_COLOR.`,
		Example: `  # Three Redis servers that have nothing to do with one another:
  export ` + nodesEnv + `=redis://10.0.0.1,redis://10.0.1.1,redis://10.0.2.1
  redlock doctor                                  # are they fit for it?
  redlock run backup -- /usr/local/bin/backup     # one at a time, on any machine
  redlock inspect backup                          # its holder, and its wait queue
  redlock ls                                      # all locks that are held or waited for
  redlock top                                     # who blocks whom, live
  redlock watch --http localhost:8080             # the same as a page that is alive
  redlock observe leader                          # who holds a lock, at each change
  source <(redlock completion bash)               # completion in this shell; or zsh, fish, powershell

  # In the crontabs of many machines, a job that one of them runs, where clocks differ by less than 30s; it is no
  # error if another machine runs it (75):
  ` + nodesEnv + `=redis://10.0.0.1,redis://10.0.1.1,redis://10.0.2.1
  0 3 * * *  /usr/local/bin/redlock run nightly --no-wait --ready 1m --ttl 30s --min-hold 30s -q -- ` +
			`/usr/local/bin/nightly || [ $? -eq 75 ]`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			s.guardGiven = cmd.Flags().Changed("restart-guard")
		},
	}
	s.register(root.PersistentFlags())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &exit{code: codeUsage, why: err, hint: "Try " + cmd.CommandPath() + " --help"}
	})
	root.SetHelpTemplate(helpTemplate())
	root.SetVersionTemplate("redlock {{.Version}}\n")
	root.AddCommand(newRun(s), newResume(s), newInspect(s), newLs(s), newTop(s), newWatch(s), newObserve(s), newDoctor(s), newMembers(s),
		newAsk(s), newUnlock(s), newBench(s), newVersion())
	return root
}

// register adds the flags that all commands have.
func (s *settings) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.nodes, "nodes", nil,
		"the Redis masters' `URLs`, separated by commas; may be repeated (default $"+nodesEnv+")")
	flags.StringVar(&s.prefix, "prefix", "redlock:", "`text` before a lock's name in its key at the nodes")
	flags.DurationVar(&s.nodeTimeout, "node-timeout", 0,
		"one node's time to answer (default a twentieth of the ttl, within 5ms and 500ms)")
	flags.DurationVar(&s.guard, "restart-guard", 0, "time for which a node that lost its memory does not vote, at "+
		"least (default the longest ttl ever used); 0 trusts such nodes at once: for tests and caches only, and for "+
		"all clients or none")
	flags.BoolVarP(&s.verbose, "verbose", "v", false,
		"log more to stderr, such as nodes that are back, and print whole owners")
	s.login.register(flags)
	s.tls.register(flags)
}

// refuseOtherShells lets completion, cobra's own command, refuse a shell that it does not know.
// root's output must be set.
func refuseOtherShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
}

// helpTemplate is cobra's, with the exit codes at the end.
func helpTemplate() string {
	var b strings.Builder
	b.WriteString("{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}\n\n{{end}}" +
		"{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}\nExit codes:\n")
	for _, line := range exitTable {
		fmt.Fprintf(&b, "  %-9s %s\n", line.code, line.meaning)
	}
	return b.String()
}

// urls returns the nodes that were given.
func (s *settings) urls() ([]string, error) {
	given, from := s.nodes, "--nodes"
	if len(given) == 0 {
		given, from = []string{os.Getenv(nodesEnv)}, nodesEnv
	}
	var urls []string
	for _, list := range given {
		urls = append(urls, strings.FieldsFunc(list,
			func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' })...)
	}
	if len(urls) == 0 {
		return nil, &exit{code: codeConfig,
			why: fmt.Errorf("no nodes: give --nodes or set %s to the URLs of the Redis masters, "+
				"such as redis://10.0.0.1:6379,redis://10.0.1.1:6379,redis://10.0.2.1:6379", nodesEnv)}
	}
	urls, err := s.login.addTo(urls)
	if err != nil {
		return nil, &exit{code: codeConfig, why: err}
	}
	for i, url := range urls {
		if _, err := endpoint.Parse(url); err != nil {
			return nil, &exit{code: codeConfig,
				why: fmt.Errorf("%s: URL %d of %d is bad: %w", from, i+1, len(urls), err)}
		}
	}
	if urls, err = s.tls.addTo(urls); err != nil {
		return nil, &exit{code: codeConfig, why: err}
	}
	return urls, nil
}

// openReader is open for a command that takes no lock.
func (s *settings) openReader(cmd *cobra.Command, opts ...redlock.ClientOption) (*redlock.Client, error) {
	return s.open(cmd, append(opts, peek.ReadsOnly().(redlock.ClientOption))...)
}

// open makes a client over the nodes. Its log goes to stderr.
func (s *settings) open(cmd *cobra.Command, opts ...redlock.ClientOption) (*redlock.Client, error) {
	urls, err := s.urls()
	if err != nil {
		return nil, err
	}
	if urls, err = withAddress(urls, s.also); err != nil {
		return nil, err
	}
	shared := []redlock.ClientOption{redlock.WithPrefix(s.prefix), redlock.WithLogger(s.logger(cmd))}
	if s.nodeTimeout != 0 {
		shared = append(shared, redlock.WithNodeTimeout(s.nodeTimeout))
	}
	if s.guardGiven {
		shared = append(shared, redlock.WithRestartGuard(s.guard))
	}
	client, err := redlock.Open(urls, append(shared, opts...)...)
	return client, coded(err)
}
