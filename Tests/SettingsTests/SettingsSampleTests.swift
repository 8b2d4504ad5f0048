import Settings
import Testing

@Suite("Sample and manual")
struct SettingsSampleTests {
    private let sample = ExampleSettings.sample(title: "Settings of an example.")

    @Test func `the sample as it stands gives the defaults`() throws {
        #expect(try read(sample).get() == ExampleSettings())
    }

    @Test func `a required key stands in the sample with its example`() throws {
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

    @Test func `taking the comment signs away leaves the defaults and the examples`() throws {
        let lines = sample.split(separator: "\n").map { line -> String in
            guard let hash = line.firstIndex(of: "#"), line[..<hash].allSatisfy({ $0 == " " }) else {
                return String(line)
            }
            let rest = line[line.index(after: hash)...]
            return rest.isEmpty || rest.first == " " ? "" : String(line[..<hash]) + rest
        }
        var expected = ExampleSettings()
        expected.domain = "sip.example.org"
        expected.names = ["anna", "bob"]
        expected.extra = .init()
        expected.peers = [.init()]
        expected.providers = ["apple": .init()]
        #expect(try read(lines.joined(separator: "\n")).get() == expected)
    }

    @Test func `the effective settings read back as the same settings`() throws {
        var settings = ExampleSettings()
        settings.domain = "no"
        settings.names = ["*.example.org", "a: b", "#x", "", "tab\t\"quoted\" \u{202E} \u{E000}"].filter { !$0.isEmpty }
        settings.patience = .milliseconds(1500)
        settings.buffer = 3 << 10
        settings.extra = .init(low: 0, high: 0)
        settings.listeners = []
        settings.peers = [.init(address: "::1"), .init(address: "12")]
        settings.providers = ["a b": .init(low: 5, high: 6)]
        #expect(try read(settings.effective()).get() == settings)
    }

    @Test func `the manual has a row for every key`() {
        let manual = ExampleSettings.manual(title: "Settings", introduction: "All keys.")
        for row in [
            "| `port` | integer 1…65535 | `5060` | The port. |", "| `domain` | text | none | The domain. |",
            "| `listen[].bind` | text | `0.0.0.0:5060` | Address and port. |",
            "| `peers[].address` | text | required | Where the peer is. |",
            "| `providers.NAME.low` | integer 0…100 | `1` | The low end. |",
            "| `mode` | strict, ecss10, listen | `strict` | How strict \\| how odd. |",
            "## `listen[].inner`",
        ] {
            #expect(manual.contains(row + "\n"), "\(row)")
        }
    }
}
