import Bytes
import JSON
import PushDelivery
import Settings
import Testing
import Timekeeping

private let device = token(.ruStore, "Ab-1:x_9", param: "shop")

private func makeSettings(_ change: (inout RuStoreSettings) -> Void = { _ in }) -> PushSettings {
    var settings = PushSettings()
    settings.ruStore.enabled = true
    settings.ruStore.projectID = "shop"
    settings.ruStore.serviceToken = Secret("s")
    change(&settings.ruStore)
    return settings
}

private func app(_ settings: PushSettings) throws -> PushApp {
    let directory = PushDirectory(settings)
    return try #require(directory.apps.first { $0.provider == .ruStore })
}

/// The keys and values of an object with only strings; `nil` for another value.
private func texts(_ value: JSONValue?) -> [String]? {
    guard case .object(let members)? = value else { return nil }
    let texts = members.compactMap { member in member.value.string.map { [member.key, $0] } }
    return texts.count == members.count ? texts.flatMap(\.self) : nil
}

/// The status and the body of an answer, with its meaning.
private let answers: [(Int, String, PushOutcome)] = [
    (200, "{}", PushOutcome.accepted(nil)), (202, "", .accepted(nil)),
    (404, #"{"error":{"code":404,"message":"gone","status":"NOT_FOUND"}}"#, .tokenDead(since: nil)),
    (404, #"{"code":404,"message":"gone","status":"NOT_FOUND"}"#, .tokenDead(since: nil)),
    (404, #"{"error":{"status":"UNREGISTERED"}}"#, .tokenDead(since: nil)), (410, "", .tokenDead(since: nil)),
    (400, #"{"error":{"status":"UNREGISTERED"}}"#, .tokenDead(since: nil)),
    (400, #"{"error":{"message":"bad ttl","status":"INVALID_ARGUMENT"}}"#, .payloadRefused("bad ttl")),
    (400, "<html>", .payloadRefused("status 400")), (404, "<html>", .foreignToken("status 404")),
    (401, #"{"status":"PERMISSION_DENIED"}"#, .credentialsRefused("PERMISSION_DENIED")),
    (403, #"{"error":{"status":"PERMISSION_DENIED"}}"#, .credentialsRefused("PERMISSION_DENIED")),
    (429, #"{"error":{"status":"TOO_MANY_REQUESTS"}}"#, .retry(after: .seconds(7))),
    (500, #"{"error":{"status":"INTERNAL"}}"#, .retry(after: .seconds(7))), (502, "", .retry(after: .seconds(7))),
    (503, "", .retry(after: .seconds(7))), (504, "", .retry(after: .seconds(7))),
    (301, "", .payloadRefused("status 301")),
]

@Suite("RuStore: requests, answers, tokens and trials")
struct RuStoreTests {
    @Test func `a call is data alone, with strings and the rest of the ring time`() throws {
        let call = push(to: device, incomingCall(), deadline: sampleDate + .seconds(30))
        let request = try #require(makeSettings().rendered(call))
        #expect(request.url == "https://vkpns.rustore.ru/v1/projects/shop/messages:send")
        #expect(request.method == "POST" && request.header("content-type") == "application/json")
        let message = try #require(try JSONValue(request.body)["message"])
        #expect(message["token"]?.string == "Ab-1:x_9")
        #expect(message["android"] == (try JSONValue(Array(#"{"ttl":"28s"}"#.utf8))))
        #expect(message["notification"] == nil)
        let data = try #require(texts(message["data"]))
        // Each payload in a format of this project has the Call-ID and the time at which the push was sent.
        #expect(message["data"]?["type"]?.string == "invite")
        #expect(data.contains("a84b4c76e66710@pc33.example.net"))
    }

    @Test func `a long list of missed calls stays within the limit`() throws {
        let calls = (0..<200).map { (String(repeating: "7", count: 60) + "\($0)", Int64(1_625_000_000 + $0)) }
        let request = try #require(makeSettings().rendered(push(to: device, missedCalls(calls))))
        let data = try #require(texts(try JSONValue(request.body)["message"]?["data"]))
        #expect(data.map(\.utf8.count).reduce(0, +) <= 4096)
    }

    // MARK: Answers

    @Test(arguments: answers)
    func `each answer has its meaning, in both shapes of errors`(
        status: Int, body: String, expected: PushOutcome
    ) throws {
        let answer = ProviderAnswer(status: status, retryAfter: "7", body: Array(body.utf8))
        #expect(try app(makeSettings()).outcome(of: answer, isProven: false, now: sampleDate) == expected)
    }

    @Test func `a 404 that no provider wrote kills a token only after the project has accepted a push`() throws {
        let answer = ProviderAnswer(status: 404, body: Array("no such page".utf8))
        #expect(try app(makeSettings()).outcome(of: answer, isProven: true, now: sampleDate) == .tokenDead(since: nil))
    }

    // MARK: Tokens

    @Test func `a token needs a project of the settings, and must be ASCII without spaces`() {
        let one = PushAcceptance(makeSettings())
        #expect(one.problem(with: device) == nil)
        #expect(one.problem(with: token(.ruStore, "Ab")) == nil)
        #expect(one.problem(with: token(.ruStore, "Ab", param: "other")) == .ruStoreProject)
        for prid in ["a b", "a\u{1}", "é", "a\r\nb", String(repeating: "a", count: 1025)] {
            #expect(one.problem(with: token(.ruStore, prid, param: "shop")) == .ruStoreToken)
        }
        #expect(one.problem(with: token(.ruStore, String(repeating: "a", count: 1024), param: "shop")) == nil)
        let two = PushAcceptance(
            makeSettings {
                var second = $0
                second.projectID = "games"
                $0.apps = ["games": second]
            })
        #expect(two.problem(with: token(.ruStore, "Ab")) == .ruStoreParamMissing)
        #expect(two.problem(with: token(.ruStore, "Ab", param: "games")) == nil)
    }

    @Test func `the settings name what is missing`() throws {
        func complaint(_ yaml: String) -> String {
            do throws(SettingsError) {
                _ = try PushSettings(yaml: Array(yaml.utf8), file: "push.yaml")
                return ""
            } catch {
                return "\(error)"
            }
        }
        #expect(complaint("rustore: { enabled: true, service-token: s }").contains("expected project-id"))
        #expect(complaint("rustore: { enabled: true, project-id: p }").contains("expected service-token"))
        #expect(complaint("rustore: { enabled: true, project-id: a/b, service-token: s }").contains("expected letters"))
        #expect(complaint("rustore: { enabled: true, project-id: p, service-token: s }").isEmpty)
        #expect(complaint("rustore: { enabled: false }").isEmpty)
    }

    // MARK: Trials

    @Test func `the trial reaches no device, and a dead token shows that the service token is right`() throws {
        let app = try app(makeSettings())
        let trial = try #require(app.trials.first)
        #expect(app.trials.count == 1 && trial.showsCredential)
        #expect(trial.request.url == "https://vkpns.rustore.ru/v1/projects/shop/messages:send")
        func verdict(_ status: Int, _ body: String = "") -> TrialVerdict {
            app.verdict(on: ProviderAnswer(status: status, body: Array(body.utf8)))
        }
        #expect(verdict(404, #"{"status":"NOT_FOUND"}"#) == .works)
        guard case .refused(_, let cure) = verdict(403, #"{"error":{"status":"PERMISSION_DENIED"}}"#) else {
            Issue.record("a refused service token is no fault")
            return
        }
        #expect(cure.contains("service-token"))
        guard case .refused = verdict(404, "<html>") else {
            Issue.record("a wrong project id is no fault")
            return
        }
        guard case .failed = verdict(503), case .reached = verdict(400) else {
            Issue.record("a failure of RuStore blames the settings")
            return
        }
    }
}
