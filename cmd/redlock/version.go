package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build",
		Long: "version prints the version of this build, its commit and the version of Go. So does --version. It " +
			"asks no node.",
		Example: `  redlock version`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "redlock %s\n", cmd.Root().Version)
			return err
		},
	}
}

// version returns the version that go install or go build recorded, the commit if there is one,
// and the version of Go.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	text, set := info.Main.Version, make(map[string]string)
	if text == "" {
		text = "(devel)"
	}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	if commit := set["vcs.revision"]; commit != "" {
		text += " commit " + commit[:min(12, len(commit))]
		if set["vcs.modified"] == "true" {
			text += " (modified)"
		}
	}
	return fmt.Sprintf("%s %s", text, info.GoVersion)
}
