import Settings
import Testing

@Suite("Settings read from YAML")
struct SettingsGroupTests {
    @Test(arguments: ["", "# nothing but a comment\n", "---\n", "inner:\n"])
    func `a file without keys gives the defaults`(yaml: String) throws {
        #expect(try read(yaml).get() == ExampleSettings())
    }

    @Test func `every type is read`() throws {
        let settings = try read(
            """
            open: yes
            port: 5061
            hold-timeout: 5m
            domain: "example.org"
            names: [anna, "bob smith", 42]
            pauses: 300ms
            password: s3cret
            key: ./key.pem
            mode: ecss10
            pair: 7:8
            inner: {low: 2, high: 3}
            peers:
              a b:
                address: 198.51.100.7
                inner: {high: 8}
            providers:
              apple: {low: 3}
              google:
            """
        ).get()
        var expected = ExampleSettings()
        expected.isOpen = true
        expected.port = 5061
        expected.patience = .seconds(300)
        expected.domain = "example.org"
        expected.names = ["anna", "bob smith", "42"]
        expected.pauses = [.milliseconds(300)]
        expected.password = Secret("s3cret")
        expected.key = "./key.pem"
        expected.mode = .ecss10
        expected.pair = .init(left: 7, right: 8)
        expected.inner = .init(low: 2, high: 3)
        expected.peers = ["a b": .init(address: "198.51.100.7", inner: .init(low: 1, high: 8))]
        expected.providers = ["apple": .init(low: 3, high: 9), "google": .init()]
        #expect(settings == expected)
    }

    @Test(arguments: [
        ("300ms", Duration.milliseconds(300)), ("30", .seconds(30)), ("30s", .seconds(30)), ("5m", .seconds(300)),
        ("1h", .seconds(3600)), ("7d", .seconds(604_800)), ("0", .zero),
    ])
    func `durations have units`(text: String, expected: Duration) throws {
        #expect(try read("pauses: [\(text)]").get().pauses == [expected])
    }

    @Test(arguments: [
        "-1", "1.5s", "5 m", "s", "1w", "1h30m", "99999999999999999999s", "36526d", "9223372036854775807d",
    ])
    func `other durations are refused`(text: String) {
        #expect(problems("pauses: [\(text)]").count == 1)
    }

    @Test(arguments: [
        ("dommain: a", #"f.yaml:1:1: unknown key "dommain"; did you mean "domain"?"#),
        ("inner:\n  lwo: 1", #"f.yaml:2:3: unknown key "lwo"; did you mean "low"?"#),
        ("frobnicate: 1", #"f.yaml:1:1: unknown key "frobnicate""#),
        ("open: maybe", #"f.yaml:1:7: open: expected true or false, found "maybe""#),
        ("open: \"true\"", #"f.yaml:1:7: open: expected true or false, found "true""#),
        ("port: 0", #"f.yaml:1:7: port: expected a whole number from 1 to 65535, found "0""#),
        ("port: 70000", #"f.yaml:1:7: port: expected a whole number from 1 to 65535, found "70000""#),
        ("port: [1]", "f.yaml:1:7: port: expected a whole number from 1 to 65535, found a list"),
        ("port:", "f.yaml:1:6: port: expected a whole number from 1 to 65535, found nothing"),
        (
            "hold-timeout: 2h",
            "f.yaml:1:15: hold-timeout: expected a duration such as 300ms, 30s, 5m, 1h or 7d from 1s to 1h, found \"2h\""
        ),
        ("mode: ecss", #"f.yaml:1:7: mode: expected strict, ecss10 or listen, found "ecss"; did you mean "ecss10"?"#),
        ("mode: {}", "f.yaml:1:7: mode: expected strict, ecss10 or listen, found a group of keys"),
        ("pair: 1", #"f.yaml:1:7: pair: expected two numbers such as 1:2, found "1""#),
        ("inner: 5", #"f.yaml:1:8: expected a group of keys, found "5""#),
        ("inner: {low: 10}", "f.yaml:1:9: low: expected at most high (9), found 10"),
        ("peers:\n  a: {}", #"f.yaml:2:3: missing key "address""#),
        (
            "peers: {a: {address: a}, b: {address: a}, c: {address: a}}",
            "f.yaml:1:8: peers: expected at most 2 groups, found 3"
        ),
        ("providers: [a]", "f.yaml:1:12: providers: expected named groups, found a list"),
        ("port: 1\nport: 2", #"f.yaml:2:1: duplicate key "port", first on line 1"#),
        ("password: [hunter2]", "f.yaml:1:11: password: expected a text"),
        ("domain: \"a\\0b\"", #"f.yaml:1:9: domain: expected a text, found "a\u0000b""#),
    ])
    func `errors are reported with their place`(yaml: String, expected: String) {
        #expect(problems(yaml) == [expected])
    }

    @Test func `several problems are reported at once, in the file's order`() {
        let found = problems("prot: 1\nopen: maybe\ninner:\n    low: x\n")
        #expect(found.map { $0.prefix(9) } == ["f.yaml:1:", "f.yaml:2:", "f.yaml:4:"])
    }

    @Test func `a file that cannot be opened is a problem with its name`() {
        let error = #expect(throws: SettingsError.self) { try ExampleSettings(contentsOf: "/nonexistent/x.yaml") }
        #expect(error?.description == "/nonexistent/x.yaml: cannot be opened: No such file or directory")
    }

    @Test func `a secret does not show`() {
        var settings = ExampleSettings()
        settings.password = Secret("hunter2")
        var dumped = ""
        dump(settings, to: &dumped)
        for text in ["\(settings)", String(reflecting: settings), dumped] {
            #expect(!text.contains("hunter2"))
        }
        #expect(settings.password?.reveal() == "hunter2")
    }
}
