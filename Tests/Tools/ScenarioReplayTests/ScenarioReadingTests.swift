import Settings
import Testing

@testable import ScenarioReplay

@Suite struct ScenarioReadingTests {
    private static func read(_ text: String) throws(SettingsError) -> Scenario {
        try Scenario.read(Array(text.utf8), name: "scenario", file: "flow.yaml")
    }

    private static func problems(in text: String) -> [String] {
        do throws(SettingsError) {
            _ = try read(text)
            return []
        } catch { return error.problems.map(\.description) }
    }

    @Test func `a scenario names actors, commands, pushes and users`() throws {
        let scenario = try Self.read(
            """
            about: Bob's phone wakes.
            users: {bob: secret}
            tokens: {dead: {status: 410, reason: Unregistered}}
            actors:
              - name: caller
                role: pbx
                play: ../common/call.xml
                start: {after: off, delay: 200ms}
              - name: bob
                play: wake.xml
                transport: tcp
                keys: {token: t1}
                start: {push: t1, nth: 2}
            commands:
              - name: off
                run: provider disable fcm
                start: {answered: bob}
            pushes:
              - {token: t1, type: invite, count: 2, fields: {data.type: invite}}
            quiet: 1s
            """)
        #expect(scenario.about == "Bob's phone wakes.")
        #expect(scenario.users == [ScenarioUser(name: "bob", password: "secret")])
        #expect(scenario.tokens == [TokenFault(token: "dead", plan: ["status": "410", "reason": "Unregistered"])])
        #expect(scenario.steps.map(\.name) == ["caller", "bob", "off"])
        #expect(scenario.steps[0].start == StartCondition(after: ["off"], delay: .milliseconds(200)))
        #expect(scenario.steps[0].actor?.place == "pbx")
        #expect(scenario.steps[1].actor?.transport.mode == "t1")
        #expect(scenario.steps[1].actor?.keys == ["token": "t1"])
        #expect(scenario.steps[1].start.push == StartCondition.Push(token: "t1", nth: 2))
        #expect(scenario.steps[2].work == .command(["provider", "disable", "fcm"]))
        #expect(scenario.pushes.count == 2)
        #expect(scenario.quiet == .seconds(1))
    }

    @Test func `an actor that is run is a program with an end`() throws {
        let scenario = try Self.read(
            """
            actors:
              - name: sleeps
                run: phone
                needs: linphonec
                place: bob
                says: registered
                keys: {token: t1}
                kill: {answered: sleeps, delay: 1s}
              - name: wakes
                run: phone
                start: {after: sleeps, hook: t1}
                kill: {after: caller}
                exit: 0
              - {name: caller, role: pbx, play: call.xml, start: {answered: sleeps}}
            """)
        let sleeps = try #require(scenario.steps[0].program)
        #expect(sleeps.script == "phone")
        #expect(sleeps.needs == "linphonec")
        #expect(sleeps.says == "registered")
        #expect(sleeps.keys == ["token": "t1"])
        #expect(sleeps.end == .kill && sleeps.role == .phone)
        #expect(sleeps.endsWhen == StartCondition(answered: "sleeps", delay: .seconds(1)))
        #expect(scenario.steps.map(\.exit) == [137, 0, 0])
        #expect(scenario.steps.map(\.place) == ["bob", "wakes", "pbx"])
        #expect(scenario.steps.map(\.role) == [.phone, .phone, .pbx])
        #expect(scenario.steps[1].start == StartCondition(after: ["sleeps"], hook: "t1"))
        #expect(scenario.steps[1].program?.needs == nil)
        #expect(scenario.steps.contains { $0.isCommand } == false)
    }

    @Test func `a PBX may be a program, at an address of its own, and actors may talk to it`() throws {
        let scenario = try Self.read(
            """
            actors:
              - {name: kamailio, run: kamailio, role: pbx, address: 127.0.0.2, stop: {after: calls}}
              - {name: calls, play: call.xml, place: desk, to: pbx, start: {answered: kamailio}}
            """)
        let program = try #require(scenario.steps[0].program)
        #expect(program.role == .pbx && program.place == "pbx" && program.address == "127.0.0.2")
        #expect(program.end == .stop && program.endsWhen == StartCondition(after: ["calls"]))
        #expect(scenario.steps.map(\.exit) == [0, 0])
        #expect(scenario.steps[1].actor?.peer == "pbx")
        for (wrong, sentence) in [
            ("{name: a, play: a.xml, to: nowhere}", "cannot talk to \"nowhere\": no such place"),
            ("{name: a, run: a}", "expected a kill or a stop"),
            ("{name: a, run: a, kill: {}, stop: {}}", "expected a kill or a stop"),
        ] {
            #expect { try Self.read("actors:\n  - \(wrong)") } throws: { "\($0)".contains(sentence) }
        }
    }

    @Test func `a request has its text and the expected responses`() throws {
        let scenario = try Self.read(
            """
            actors:
              - {name: calls, play: call.xml, start: {after: reports}}
            requests:
              - name: reports
                send: POST /v1/push-tokens?username=%user%
                key: tokens.report
                fields: {Content-Type: application/json}
                body: '{"username":"%user%"}'
                status: 202
                answer: {next: "1"}
              - send: GET /healthz
            """)
        let reports = try #require(scenario.steps[1].request)
        #expect(reports.method == "POST" && reports.target == "/v1/push-tokens?username=%user%")
        #expect(reports.scopes == "tokens.report" && reports.body == #"{"username":"%user%"}"#)
        #expect(reports.fields == ["Content-Type": "application/json"] && reports.status == 202)
        #expect(scenario.steps[2].name == "GET /healthz" && scenario.steps[2].request?.status == 200)
        #expect(scenario.steps.map(\.isCommand) == [false, false, false])
        #expect(reports.difference(status: 202, answer: #"{"next":1}"#) == nil)
        #expect(reports.difference(status: 401, answer: "")?.description == "was answered with 401, expected 202")
        #expect(
            reports.difference(status: 202, answer: "{}")?.description == "next in the answer is not there, expected 1")
    }

    @Test func `an unknown key is refused with its place`() {
        let found = Self.problems(in: "actors:\n  - {name: bob, play: a.xml, tarnsport: udp}\n")
        #expect(found.count == 1)
        #expect(found.first?.hasPrefix("flow.yaml:2:30: unknown key \"tarnsport\" in an actor") == true)
    }

    @Test(arguments: [
        ("{}", "expected at least one actor"),
        ("actors: [{name: bob}]", "expected a play"),
        ("actors: [{name: a, play: x, transport: sctp}]", "expected udp or tcp"),
        ("actors: [{name: a, play: x}, {name: a, play: y}]", "two steps are called \"a\""),
        ("actors: [{name: a, play: x, start: {after: b}}]", "cannot come after \"b\""),
        ("actors: [{name: a, play: x, start: {after: a}}]", "cannot come after \"a\""),
        ("actors: [{name: a, play: x, start: {answered: b}}]", "cannot wait for \"b\""),
        ("actors: [{name: a, play: x, start: {delay: soon}}]", "expected a time such as 300ms"),
        ("actors: [{name: a, play: x, start: {nth: 2}}]", "there is no push"),
        ("actors: [{name: a, play: x}]\npushes: [{token: t, type: invite, count: 0}]", "count from 1 to 100"),
        ("actors: [{name: a, play: x}]\npushes: [{type: invite}]", "expected a token"),
        ("actors: [{name: a, play: x, exit: one}]", "expected a whole number"),
        ("actors: [{name: a, run: x}]", "expected a kill"),
        ("actors: [{name: a, run: x, play: y, kill: {}}]", "unknown key \"play\" in a program"),
        ("actors: [{name: a, run: x, kill: {after: a}}]", "cannot come after \"a\""),
        ("actors: [{name: a, run: x, kill: {after: b}}]", "cannot come after \"b\""),
        ("actors: [{name: a, run: x, kill: {answered: a}}]", "cannot wait for \"a\""),
        ("actors: [{name: a, run: x, says: ok, start: {answered: a}, kill: {}}]", "cannot wait for \"a\""),
        ("actors: {name: a}", "expected a list"),
        ("actors: [{name: a, play: x}]\nrequests: [{name: b}]", "expected a send"),
        ("actors: [{name: a, play: x}]\nrequests: [{send: /healthz}]", "expected a method and a path"),
        ("actors: [{name: a, play: x, start: {answered: b}}]\nrequests: [{name: b, send: GET /}]", "cannot wait for"),
        ("actors: [a]", "expected a group of keys"),
    ])
    func `a mistake has a sentence`(text: String, sentence: String) {
        #expect(Self.problems(in: text).contains { $0.contains(sentence) })
    }

    @Test func `a scenario's wishes lie over the usual configuration`() throws {
        let usual = try YAMLNode.read(Array("auth: off\ncall: {ring-timeout: 5s, other: \"1\"}\n".utf8), file: "usual")
        let wishes = try YAMLNode.read(Array("call: {ring-timeout: 2s}\ndomains: [a, \"b c\"]\n".utf8), file: "wishes")
        let merged = usual.overlaid(with: wishes)
        #expect(merged.yaml == "auth: off\ncall:\n  ring-timeout: 2s\n  other: \"1\"\ndomains: [a, \"b c\"]\n")
        let again = try YAMLNode.read(Array(merged.yaml.utf8), file: "again")
        #expect(again["call"]?["ring-timeout"]?.text == "2s")
        #expect(again["domains"]?.items?.compactMap(\.text) == ["a", "b c"])
    }
}
