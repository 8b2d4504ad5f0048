import Testing
import Timekeeping

@testable import PushDelivery

/// Tests the trials of credentials: requests that reach no phone, but show whether the provider accepts the credential.
@Suite("Trials of credentials")
struct TrialTests {
    private func apps(_ change: (inout PushSettings) -> Void) -> [PushApp] {
        var settings = PushSettings()
        change(&settings)
        return PushDirectory(settings).apps
    }

    private func apple(_ change: (inout APNsSettings) -> Void = { _ in }) -> [PushApp] {
        apps {
            $0.apns.enabled = true
            $0.apns.topics = ["com.example.phone"]
            change(&$0.apns)
        }
    }

    private func google(_ change: (inout FCMSettings) -> Void = { _ in }) throws -> PushApp {
        let apps = apps {
            $0.fcm.enabled = true
            $0.fcm.projectID = "my-project"
            change(&$0.fcm)
        }
        return try #require(apps.first)
    }

    private enum Kind { case works, reached, refused, failed }

    private func kind(_ verdict: TrialVerdict) -> Kind {
        switch verdict {
        case .works: .works
        case .reached: .reached
        case .refused: .refused
        case .failed: .failed
        }
    }

    private func verdict(_ app: PushApp, _ status: Int, _ body: String = "") -> TrialVerdict {
        app.verdict(on: ProviderAnswer(status: status, body: Array(body.utf8)))
    }

    // MARK: Apple

    @Test func `Apple is asked about each topic, with a token of no device`() throws {
        let app = try #require(apple { $0.topics = ["com.example.a", "com.example.b"] }.first)
        #expect(app.trials.map(\.subject) == ["topic com.example.a", "topic com.example.b"])
        let request = try #require(app.trials.first?.request)
        #expect(request.url == "https://api.push.apple.com/3/device/" + String(repeating: "0", count: 64))
        #expect(request.headers.first { $0.name == "apns-topic" }?.value == "com.example.a")
        // The push is a background push, so that a phone with this token would show nothing.
        #expect(request.headers.first { $0.name == "apns-push-type" }?.value == "background")
        #expect(request.body == Array("{\"aps\":{\"content-available\":1}}".utf8))
        let many = try #require(apple { $0.topics = (0..<100).map { "com.example.a\($0)" } }.first)
        #expect(many.trials.count == CredentialTrial.limit)
    }

    @Test func `Apple's word about the token shows that the rest is good`() throws {
        let app = try #require(apple().first)
        for (status, reason, expected) in [
            (400, "BadDeviceToken", Kind.works), (400, "DeviceTokenNotForTopic", .works), (410, "Unregistered", .works),
            (403, "InvalidProviderToken", .refused), (403, "ExpiredProviderToken", .refused),
            (400, "TopicDisallowed", .refused), (400, "BadTopic", .refused), (403, "BadCertificate", .refused),
            (403, "BadEnvironmentKeyIdInToken", .refused), (400, "MissingTopic", .reached),
            (429, "TooManyRequests", .failed),
            (503, "ServiceUnavailable", .failed),
        ] {
            #expect(kind(verdict(app, status, "{\"reason\":\"\(reason)\"}")) == expected, "\(reason)")
        }
    }

    @Test func `a key for production alone is no fault of the sandbox`() throws {
        let apps = apple()
        let sandbox = try #require(apps.first { $0.provider == .apnsDevelopment })
        #expect(kind(verdict(sandbox, 403, "{\"reason\":\"BadEnvironmentKeyIdInToken\"}")) == .reached)
        #expect(kind(verdict(sandbox, 403, "{\"reason\":\"InvalidProviderToken\"}")) == .refused)
    }

    // MARK: Google

    @Test func `Google checks a message that goes to nobody`() throws {
        let trial = try #require(try google().trials.first)
        #expect(trial.request.url == "https://fcm.googleapis.com/v1/projects/my-project/messages:send")
        #expect(
            trial.request.body
                == Array("{\"validate_only\":true,\"message\":{\"topic\":\"sippushd-trial\"}}".utf8))
        #expect(try google { $0.projectID = nil }.trials.isEmpty)
        let old = try #require(try google { $0.bodyFormat = .legacy }.trials.first)
        #expect(old.request.body == Array("{\"to\":\"sippushd-trial\",\"dry_run\":true}".utf8))
    }

    @Test func `Google's words`() throws {
        let app = try google()
        func error(_ status: String, _ code: String? = nil) -> String {
            "{\"error\":{\"status\":\"\(status)\",\"message\":\"m\"\(code.map { ",\"details\":[{\"errorCode\":\"\($0)\"}]" } ?? "")}}"
        }
        #expect(kind(verdict(app, 200, "{\"name\":\"projects/x/messages/fake\"}")) == .works)
        #expect(kind(verdict(app, 401, error("UNAUTHENTICATED"))) == .refused)
        #expect(kind(verdict(app, 403, error("PERMISSION_DENIED"))) == .refused)
        #expect(kind(verdict(app, 404, error("NOT_FOUND"))) == .refused)
        #expect(kind(verdict(app, 400, error("INVALID_ARGUMENT"))) == .reached)
        #expect(kind(verdict(app, 503, error("UNAVAILABLE"))) == .failed)
        let old = try google { $0.bodyFormat = .legacy }
        #expect(kind(verdict(old, 401)) == .refused)
        #expect(kind(verdict(old, 200, "{\"results\":[{\"error\":\"InvalidRegistration\"}]}")) == .works)
        #expect(kind(verdict(old, 500)) == .failed)
    }

    // MARK: Others

    @Test func `servers that judge only pushes are asked whether they answer`() throws {
        let others = apps {
            $0.webPush.enabled = true
            $0.acrobits.enabled = true
        }
        for app in others {
            for trial in app.trials {
                #expect(trial.request.method == "GET" && trial.request.body.isEmpty && !trial.showsCredential)
            }
            #expect(kind(verdict(app, 404)) == .reached && kind(verdict(app, 502)) == .failed)
        }
        let web = try #require(others.first { $0.provider == .webPush })
        // There is no trial for a host name with a wildcard, because a wildcard names no server.
        #expect(web.trials.map(\.subject).contains("fcm.googleapis.com"))
        #expect(!web.trials.contains { $0.request.url.contains("*") || $0.subject == "notify.windows.com" })
    }

    @Test func `the worst of several verdicts counts, with its subject`() {
        let refused = TrialVerdict.refused("no", cure: "c")
        #expect(refused.isWorse(than: .failed("x", cure: "c")) && !TrialVerdict.works.isWorse(than: .reached("x")))
        #expect(refused.about("topic a") == .refused("topic a: no", cure: "c"))
        #expect(refused.about("") == refused)
    }

    @Test func `the lead of our clock is what an answer's date says`() {
        let now = UnixTime(seconds: 784_111_777 + 90)
        #expect(ProviderAnswer.clockLead(over: "Sun, 06 Nov 1994 08:49:37 GMT", now: now) == 90)
        #expect(ProviderAnswer.clockLead(over: "yesterday", now: now) == nil)
        #expect(ProviderAnswer.clockLead(over: nil, now: now) == nil)
    }
}
