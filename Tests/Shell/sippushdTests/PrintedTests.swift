import Testing

@testable import sippushd

@Suite("Output for packages")
struct PrintedTests {
    @Test func `the manual page contains each command and option`() {
        let page = ManPage.program.text(date: "2026-11-26")
        for command in commands {
            #expect(page.contains("\n.SS \(roff(command.name))\n"))
            #expect(page.contains("\n.B sippushd \(roff(command.name))\n"))
            for option in command.options { #expect(page.contains("\\fB\(roff(option.name))\\fR")) }
        }
    }

    @Test func `the manual page of the settings contains groups and their keys`() {
        let page = ManPage.settings.text(date: "2026-11-26")
        #expect(page.hasPrefix(".TH SIPPUSHD.YAML 5 2026-11-26 \"sippushd "))
        for key in [
            "domains", "tls.cert-file", "push.apns.key-file", "push.apns.apps.NAME.topics", "call.ring-timeout",
        ] {
            #expect(page.contains("\n.B \(roff(key))\n"), "\(key)")
        }
        #expect(page.contains("\n.SH push.apns.apps\n"))
    }

    @Test(arguments: ManPage.allCases)
    func `text is no order to the formatter`(page: ManPage) {
        let orders: Set<Substring> = [".TH", ".SH", ".SS", ".TP", ".B", ".I", ".RI", ".BR", ".PP", ".br"]
        for line in page.text(date: "2026-11-26").split(separator: "\n") {
            #expect(line.utf8.allSatisfy { $0 < 128 && $0 >= 32 })
            #expect(!line.hasPrefix("'"))
            if line.hasPrefix(".") { #expect(orders.contains(line.prefix { $0 != " " })) }
        }
    }

    @Test(arguments: Completion.allCases)
    func `each shell completes each command and option`(shell: Completion) {
        let script = shell.script
        for command in commands {
            for word in command.name.split(separator: " ") { #expect(script.contains(word)) }
            for option in command.options {
                #expect(script.contains(shell == .fish ? "-l \(option.name.dropFirst(2)) " : option.name))
                for choice in option.choices { #expect(script.contains(choice)) }
            }
        }
    }

    @Test func `a help text cannot leave its quotes`() {
        for script in [Completion.zsh.script, Completion.fish.script] {
            // Each shell has its own way to write an apostrophe inside quotes.
            #expect(script.contains("user\\'s devices") || script.contains("user'\\''s devices"))
        }
    }

    @Test func `an argument is one segment of a path`() {
        #expect(pathSegment("bob-1@example.net/é") == "bob%2D1%40example%2Enet%2F%C3%A9")
    }

    private func roff(_ text: String) -> String {
        text.split(separator: "-", omittingEmptySubsequences: false).joined(separator: "\\-")
    }
}
