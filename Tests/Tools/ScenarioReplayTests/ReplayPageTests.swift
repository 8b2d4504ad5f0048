import Bytes
import Crypto
import JSON
import Testing

@testable import ScenarioReplay

@Suite struct ReplayPageTests {
    private static let token = "0123456789abcdef0123456789abcdef"

    private static func invite(name: String, lines: String = "") -> String {
        """
        INVITE sip:bob@example.net SIP/2.0
        From: "\(name)" <sip:103@example.net>;tag=1
        Call-ID: \(token)-1
        CSeq: 1 INVITE
        \(lines)Content-Length: 0

        """
    }

    private static func event(
        _ time: Double, _ label: String, _ content: PlayedEvent.Content, _ place: Difference.Place = .step("calls"),
        to: String? = "sippushd"
    ) -> PlayedEvent {
        PlayedEvent(
            line: Ladder.Event(time: time, from: "pbx", to: to, label: label), content: content, place: place)
    }

    private static func push(_ body: String, token: String = token) throws -> PushRecord {
        try #require(
            PushRecord(line: #"{"service":"fcm","token":"\#(token)","type":"invite","time":12,"body":\#(body)}"#))
    }

    private static func played(_ events: [PlayedEvent], differences: [Difference] = []) -> PlayedScenario {
        var played = PlayedScenario(
            name: "flow", about: "A flow.", result: differences.isEmpty ? .passed : .failed)
        played.columns = ["sippushd", "pbx"]
        played.events = events
        played.differences = differences
        played.tokens = [KnownToken(token: token, owner: "bob")]
        played.secrets = ["hunter2hunter2"]
        return played
    }

    private static func page(_ events: [PlayedEvent], differences: [Difference] = []) -> String {
        ReplayPage([played(events, differences: differences)]).html
    }

    // MARK: Escaping

    @Test(arguments: [
        "<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "]]></pre>", "' onclick=alert(1) \"",
    ])
    func `markup in a name is text everywhere`(name: String) throws {
        var played = Self.played([
            Self.event(0, "INVITE", .message(Self.invite(name: name))),
            Self.event(1, "200 \(name)", .message("SIP/2.0 200 \(name)\r\n\r\n")),
            Self.event(2, name, .push(try Self.push(JSONValue.string(name).text)), .push(0)),
            Self.event(3, name, .remark, to: nil),
        ])
        played.result = .failed
        played.columns.append(name)
        played.lastWords = [name]
        played.differences = [
            Difference(sentence: name, subject: name, token: name, name: name, expected: name, seen: name)
        ]
        let hostile = PlayedScenario(name: name, about: name, result: .skipped(name))
        let html = ReplayPage([played, hostile]).html
        #expect(!html.contains(name))
        #expect(html.contains(HTMLText.escaped(name)))
        #expect(html.parts("<script").count == 2)
        #expect(html.parts("</script").count == 2)
        #expect(html.parts("<img").count == 1)
        // No attribute ends before its own quote.
        #expect(!html.contains("\" onclick") && !html.contains("' onclick"))
    }

    @Test func `marks of direction are shown, and names are isolated`() throws {
        let name = "alice \u{202E}gpj.exe\u{0}\u{2028}"
        let html = Self.page([
            Self.event(0, name, .message(Self.invite(name: name))),
            Self.event(1, name, .push(try Self.push(JSONValue.string(name).text)), .push(0)),
        ])
        #expect(!html.unicodeScalars.contains { ["\u{202E}", "\u{0}", "\u{2028}"].contains($0) })
        #expect(html.contains(#"<bdi>From: &quot;alice \u{202e}gpj.exe\u{0}\u{2028}&quot;"#))
        #expect(html.contains(#"alice \u202egpj.exe\u0000\u2028"#))
    }

    // MARK: Policy

    @Test func `the policy has the hashes of style and script, and nothing is loaded`() throws {
        let html = Self.page([])
        func part(_ tag: String) throws -> String {
            let start = try #require(html.parts("<\(tag)>").last)
            return try #require(start.parts("</\(tag)>").first)
        }
        func hash(_ text: String) -> String {
            let digest = Base64.standard.encode(HashAlgorithm.sha256.digest(of: Array(text.utf8)))
            return "'sha256-\(String(decoding: digest, as: UTF8.self))'"
        }
        let (style, script) = (try part("style"), try part("script"))
        #expect(style.contains("body{") && script.hasPrefix("\"use strict\""))
        #expect(
            html.contains(
                "content=\"default-src 'none'; style-src \(hash(style)); script-src \(hash(script)); base-uri 'none'"))
        for word in ["http:", "https:", "//", "@import", "url(h", " style=", " src=", "innerHTML"] {
            #expect(!html.contains(word), "\(word)")
        }
        #expect(!html.contains(#/ on[a-z]+=/#))
    }

    // MARK: Secrets

    @Test func `secrets of a SIP message are hidden`() {
        let lines = """
            Contact: <sip:bob@192.0.2.1;pn-provider=fcm;pn-prid=\(Self.token)>
            Authorization: Digest username="bob", response="5ccc069c403ebaf9f0171e9517f40e41"
            Subject: spd_abcdefghijklmnopqrstuvwxyz0123456789_-ABCDE hunter2hunter2

            """
        let html = Self.page([Self.event(0, "INVITE", .message(Self.invite(name: "a", lines: lines)))])
        #expect(!html.contains(Self.token))
        #expect(!html.contains("5ccc069c"))
        #expect(!html.contains("hunter2") && !html.contains("spd_abc"))
        #expect(html.contains("pn-provider=fcm;pn-prid=0123xxxx"))
        #expect(html.contains("Call-ID: 0123xxxx"))
    }

    @Test func `a message keeps its session description`() {
        let text = "INVITE sip:b@h SIP/2.0\nContent-Type: application/sdp\nContent-Length: 9\n\nv=0\na=crypto:1 key\n"
        let masked = PageMask().message(text)
        #expect(masked.contains("v=0\na=crypto:xxxxx"))
    }

    @Test func `secrets of a push are hidden in all its members`() throws {
        let body = """
            {"to":"\(Self.token)","password":"correct-horse-battery","n":{"auth":[170117,"b"]},"inner":"{\\"secret\\":\\"k\\"}",\
            "x":"a 0123456789ABCDEF0123456789ABCDEF b"}
            """
        let html = Self.page([Self.event(0, "invite", .push(try Self.push(body)), .push(0))])
        #expect(!html.lowercased().contains(Self.token))
        #expect(!html.contains("correct-horse") && !html.contains("corrxx") && !html.contains("170117"))
        #expect(html.contains("&quot;to&quot;: &quot;0123xxxx"))
        #expect(html.contains(#"{\&quot;secret\&quot;:\&quot;x\&quot;}"#))
        #expect(html.contains("invite to token 1<"))
        #expect(html.contains("token 1 of <bdi>bob</bdi>: <bdi>0123…(32)</bdi>"))
    }

    @Test func `secrets of a request are hidden`() throws {
        let text = "actors: [{name: a, play: x}]\nrequests: [{send: POST /x, fields: {X-Api-Key: k1, Accept: any}}]"
        let scenario = try Scenario.read(Array(text.utf8), name: "flow", file: "flow.yaml")
        let request = try #require(scenario.steps.last?.request)
        let html = Self.page([
            Self.event(
                0, "POST /x",
                .request(request, sent: "POST /x?a=1&password=p1\n\nuser=b&password=p2", answer: #"{"token":"p3"}"#),
                to: nil)
        ])
        #expect(html.contains("POST /x?a=1&amp;password=xx"))
        #expect(html.contains("X-Api-Key: xx") && html.contains("Accept: any"))
        #expect(html.contains("user=b&amp;password=xx"))
        #expect(html.contains("&quot;token&quot;: &quot;xx&quot;"))
    }

    @Test func `a short token is hidden where it is a whole value`() throws {
        let mask = PageMask(tokens: [KnownToken(token: "b", owner: nil), KnownToken(token: "abcd", owner: nil)])
        #expect(
            mask.json(try #require(JSONValue(text: #"["b","bob","xABCDx"]"#)))
                == "[\n  \"xxx\",\n  \"bob\",\n  \"xxxxxx\"\n]")
    }

    @Test func `the passwords and tokens of a flow are known`() throws {
        let text = """
            users: {bob: hunter2}
            actors:
              - {name: a, place: bob, play: x}
              - {name: b, place: eve, play: x, keys: {token: eve-token, auth_password: key-secret}}
            pushes: [{token: third, type: invite}]
            """
        let scenario = try Scenario.read(Array(text.utf8), name: "flow", file: "flow.yaml")
        #expect(scenario.secrets == ["hunter2", "key-secret"])
        #expect(
            scenario.tokens(of: []) == [
                KnownToken(token: "eve-token", owner: "eve"), KnownToken(token: "bob-token", owner: "bob"),
                KnownToken(token: "third", owner: nil),
            ])
    }

    // MARK: Differences

    @Test func `differences are listed and marked`() throws {
        let push = try Self.push(#"{"data":{"type":"invite"}}"#)
        let expected = ExpectedPush(token: Self.token, type: "missed_calls", status: nil, service: nil, fields: [:])
        let differences = PushCheck.differences(of: [push, push], expected: [expected])
        #expect(differences.map(\.places) == [[.push(1)], [.push(0)]])
        let html = Self.page(
            [
                Self.event(0, "INVITE", .message(Self.invite(name: "a"))),
                Self.event(1, "invite", .push(push), .push(0)), Self.event(2, "invite", .push(push), .push(1)),
            ], differences: differences)
        #expect(html.contains("<b><bdi>pushes for token 1: number</bdi></b> <a href=\"#m1-2\">at 2 ms</a>"))
        #expect(html.contains("<dd><bdi>1: missed_calls</bdi></dd><dt>seen</dt><dd><bdi>2: invite, invite</bdi></dd>"))
        #expect(html.contains("<dd><bdi>missed_calls</bdi></dd><dt>seen</dt><dd><bdi>invite</bdi></dd>"))
        #expect(html.parts("class=\"message push different\"").count == 3)
        #expect(html.contains("class=\"message\" id=\"m1-0\""))
        let list = try #require(html.firstRange(of: "<h3>Differences"))
        let ladder = try #require(html.firstRange(of: "class=\"ladder"))
        #expect(list.lowerBound < ladder.lowerBound)
    }

    @Test func `a step that fails marks its last message`() {
        let failed = Difference(
            sentence: "", subject: "calls", name: "exit code", expected: "0", seen: "1", places: [.step("calls")])
        let html = Self.page(
            [Self.event(1, "BYE", .remark), Self.event(0, "INVITE", .message(Self.invite(name: "a")))],
            differences: [failed])
        #expect(html.contains("<a class=\"message different\" id=\"m1-1\" aria-label="))
        #expect(html.contains("<a class=\"message\" id=\"m1-0\" href=\"#t1-0\""))
    }

    @Test func `a secret value of a difference is hidden`() {
        let difference = Difference(sentence: "", subject: "s", name: "data.token", expected: "one", seen: "two")
        let html = Self.page([], differences: [difference])
        #expect(html.contains("<dd><bdi>xxx</bdi></dd><dt>seen</dt><dd><bdi>xxx</bdi></dd>"))
    }

    // MARK: Limits

    @Test func `long texts are cut, and further messages are counted`() {
        let events = (0..<12).map { number in
            Self.event(Double(number), "INVITE", .message(Self.invite(name: String(repeating: "é", count: 300))))
        }
        let limits = ReplayPage.Limits(events: 10, text: 200, texts: 500, differences: 1, tokens: 1)
        let other = Difference(sentence: "", subject: "s", name: "n", expected: "e", seen: "s")
        var played = Self.played(events, differences: [other, other])
        played.tokens.append(KnownToken(token: "second", owner: nil))
        let html = ReplayPage([played, Self.played(events)], limits: limits).html
        #expect(html.contains("The page shows the first 10 of 12 messages, because it has room for 10."))
        #expect(html.contains("The page shows the first 0 of 12 messages, because it has room for 10."))
        #expect(html.parts("class=\"message\"").count == 11)
        #expect(html.contains("The text is cut after 200 bytes.") || html.contains("The text is cut after 199 bytes."))
        #expect(html.contains("The text is cut after 0 bytes."))
        #expect(html.contains("The list shows the first 1 of 2 differences."))
        #expect(html.contains(", and 1 others."))
        #expect(!html.contains("\u{FFFD}"))
    }

    @Test func `thousands of messages keep the page small enough`() {
        let text = Self.invite(name: "a", lines: "Subject: \(String(repeating: "<", count: 20_000))\n")
        let events = (0..<100).map { Self.event(Double($0), "INVITE", .message(text)) }
        let html = ReplayPage([Self.played(events)], limits: ReplayPage.Limits(texts: 50_000)).html
        #expect(html.utf8.count < 400_000)
    }

    // MARK: Scenarios

    @Test func `several scenarios share a page, failed ones first in its list`() throws {
        var failed = Self.played([])
        failed.result = .failed
        let html = ReplayPage([Self.played([]), failed, PlayedScenario(name: "c", about: "", result: .skipped("no"))])
            .html
        #expect(html.contains("1 passed, 1 failed, 1 skipped"))
        let (first, second) = (html.firstRange(of: "href=\"#s1\""), html.firstRange(of: "href=\"#s2\""))
        #expect(try #require(second).lowerBound < (try #require(first)).lowerBound)
        #expect(html.contains("<section id=\"s3\">"))
    }

    @Test func `the option names a file in a folder that exists`() throws {
        #expect(try ReplayOptions(["a", "--html", "page.html"]).page == "page.html")
        #expect(throws: ReplayError.self) { try ReplayOptions(["--html"]) }
        #expect(throws: ReplayError.self) { try ReplayOptions(["--list", "--html", "page.html"]) }
        #expect(throws: ReplayError.self) { try ReplayPage.check("/no/such/folder/page.html") }
        #expect(throws: ReplayError.self) { try ReplayPage.check("/tmp") }
    }

    @Test func `a message keeps the lines of its text`() {
        let trace = """
            ------- 2026-11-21 05:32:25.479973
            UDP message sent (346 bytes):

            INVITE sip:bob@example.net SIP/2.0
            CSeq: 1 INVITE

            v=0

            ------- 2026-11-21 05:32:25.485874
            """
        let dashes = "-----------------------------------------------"
        let texts = MessageTrace.messages(in: trace.replacing("-------", with: dashes)).map(\.text)
        #expect(texts == ["INVITE sip:bob@example.net SIP/2.0\nCSeq: 1 INVITE\n\nv=0"])
    }
}

extension JSONValue {
    fileprivate var text: String { String(decoding: bytes, as: UTF8.self) }
}

extension String {
    /// The parts of the text between the occurrences of a separator.
    fileprivate func parts(_ separator: String) -> [String] {
        split(separator: separator, omittingEmptySubsequences: false).map { String($0) }
    }
}
