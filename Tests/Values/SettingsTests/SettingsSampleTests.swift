import Settings
import Testing

@Suite("Sample and manual")
struct SettingsSampleTests {
    private let sample = ExampleSettings.sample(title: "Settings of an example.")

    @Test func `the unchanged sample gives the defaults`() throws {
        #expect(try read(sample).get() == ExampleSettings())
    }

    @Test func `the sample contains a required key with its example`() throws {
        struct Strict: SettingsGroup {
            var names: [String] = []
            var other = 1
            static let schema: [Setting<Strict>] = [
                .list("names", \.names, example: "[anna]", "Names.").required(), .integer("other", \.other, "Other."),
            ]
        }
        let sample = Strict.sample(title: "t")
        #expect(sample.contains("\nnames: [anna]\n"))
        #expect(try Strict(yaml: Array(sample.utf8), file: "f").names == ["anna"])
        #expect(throws: SettingsError.self) { try Strict(yaml: [], file: "f") }
    }

    /// The sample without help texts, and without the `#` before keys.
    private func uncommented(_ sample: String) -> String {
        sample.split(separator: "\n").map { line -> String in
            guard let hash = line.firstIndex(of: "#"), line[..<hash].allSatisfy({ $0 == " " }) else {
                return String(line)
            }
            let rest = line[line.index(after: hash)...]
            return rest.isEmpty || rest.first == " " ? "" : String(line[..<hash]) + rest
        }.joined(separator: "\n")
    }

    @Test func `taking the comment signs away leaves the defaults and the examples`() throws {
        var expected = ExampleSettings()
        expected.domain = "sip.example.org"
        expected.names = ["anna", "bob"]
        expected.peers = ["first": .init()]
        expected.providers = ["apple": .init()]
        #expect(try read(uncommented(sample)).get() == expected)
    }

    @Test func `odd defaults read back as they are`() throws {
        struct Odd: SettingsGroup, Equatable {
            var names = ["*.example.org", "a: b", "#x", "no", "tab\t\"quoted\" \u{202E} \u{E000}"]
            var pause: Duration = .milliseconds(1500)
            var groups = ["a b": ExampleSettings.Inner(low: 5, high: 6), "12": .init(low: 0, high: 0)]
            static let schema: [Setting<Odd>] = [
                .list("names", \.names, "Names."), .duration("pause", \.pause, "A pause."),
                .named("groups", \.groups, exampleName: "x", "Groups."),
            ]
        }
        #expect(try Odd(yaml: Array(uncommented(Odd.sample(title: "t")).utf8), file: "f") == Odd())
    }

    @Test func `the manual has a row for every key`() {
        let manual = ExampleSettings.manual(title: "Settings", introduction: "All keys.")
        for row in [
            "| `port` | integer 1…65535 | `5060` | restart | The port. |",
            "| `domain` | text | none | restart | The domain. |",
            "| `peers.NAME.address` | text | required | restart | Where the peer is. |",
            "| `providers.NAME.low` | integer 0…100 | `1` | restart | The low end. |",
            "| `mode` | strict, ecss10, listen | `strict` | restart | How strict \\| how odd. |",
            "## `peers.NAME.inner`",
        ] {
            #expect(manual.contains(row + "\n"), "\(row)")
        }
    }
}
