import HTTPServices
import ProxyRuntime
import PushDelivery
import Testing

@testable import ProxyDaemon
@testable import Settings

/// Tests that a change of each setting takes effect at SIGHUP or at a restart, as the setting's schema says.
@Suite("Settings that are read again")
struct SettingsReloadTests {
    /// A value for each key that differs from its default.
    private static let changes: [String: String] = [
        "domains": "[example.org]", "listen": "[\"udp:127.0.0.1:5061\"]", "load-balancers": "[192.0.2.20]",
        "advertise": "sip.example.org", "store": "/tmp/x.db",
        "postgresql.connection": "\"host=a dbname=b\"", "postgresql.password-file": "/tmp/a",
        "cluster.node": "a", "cluster.listen": "\"192.0.2.21:5071\"", "cluster.advertise": "\"192.0.2.21:5071\"",
        "cluster.cert-file": "/tmp/a", "cluster.key-file": "/tmp/a", "cluster.ca-file": "/tmp/a", "calls": "/tmp/calls",
        "control": "/tmp/x.sock",
        "auth": "\"off\"", "trusted": "[192.0.2.10]", "strip-headers": "[\"Y-*\"]", "upstream": "sip:192.0.2.1",
        "upstream-hosts": "[pbx.example.org]", "upstream-check.interval": "7s", "upstream-check.patience": "7s",
        "register-upstream": "{example.net: {upstream: \"sip:192.0.2.1\"}}", "tls.cert-file": "/tmp/a",
        "tls.key-file": "/tmp/a", "tls.ca-file": "/tmp/a", "tls.client-ca-file": "/tmp/a",
        "tls.certificates": "{a: {cert-file: /tmp/a, key-file: /tmp/a}}", "websocket.origins": "[https://a.example]",
        "websocket.ping-interval": "7s", "websocket.api-path": "/sip", "call.ring-timeout": "7s",
        "call.ring-limit": "200s", "call.skip-push-within": "7s", "call.ring-live-flow-within": "7s",
        "call.ring-order": "q", "call.group-time": "7s", "call.ask-connections": "false", "call.ask-udp": "true",
        "call.dialog-lifetime": "7s",
        "call.wake-in-dialogs": "false", "call.caller-id-format": "uri", "call.pushes-per-device": "7",
        "call.pushes-per-caller": "7", "call.no-wake.action": "redirect", "call.no-wake.status": "603",
        "call.no-wake.to": "sip:vm@a.example", "call.no-wake.ring-after-push": "true", "call.no-wake.learn": "true",
        "call.no-wake.for": "{bob@example.net: {status: 486}}", "registrar.default-expires": "700s",
        "registrar.min-expires": "70s",
        "registrar.max-expires": "7000s", "registrar.max-contacts": "7", "registrar.label": "[instance]",
        "registrar.unsupported-push": "ordinary", "registrar.announce-refresh": "700s",
        "registrar.refresh-push": "700s", "registrar.refresh-push-tries": "2",
        "registrar.refresh-push-rate": "7", "registrar.announce-purr": "true", "registrar.flow-timer": "70s",
        "digest.realm": "other", "digest.algorithms": "[SHA-256]", "digest.old-clients": "[x]",
        "digest.nonce-lifetime": "70s", "digest.nonce-memory": "2048", "digest.allow-missing-qop": "true",
        "digest.reuse-nonces": "false",
        "tenants": "{a.example: {realm: r, calls: 7}}",
        "users.order": "[x]", "users.sources": "{a: {url: \"http://a.example/\"}}", "users.known-for": "7s",
        "users.refused-for": "7s", "users.keep-for": "7s", "users.remember": "700",
        "bearer.issuers":
            "{a: {issuer: i, audience: [x], authz-server: \"https://a.example/\", key-file: /a.pem}}",
        "bearer.remember": "700",
        "messages.methods": "[INFO]", "messages.wait": "7s", "messages.store": "true", "messages.max-count": "7",
        "messages.max-bytes": "70000", "messages.max-age": "70s", "messages.max-total-bytes": "2000000",
        "messages.show-words": "false", "bucket.max-entries": "7", "bucket.max-age": "70s",
        "missed-calls.after-late-invite": "list", "push.invite-ttl-margin": "7s", "push.missed-calls-ttl": "7s",
        "push.request-timeout": "7s", "push.source-address": "192.0.2.20",
        "push.try-credentials": "false", "push.apns.enabled": "true",
        "push.apns.environment": "sandbox", "push.apns.topics": "[a]", "push.apns.token-service": "voip",
        "push.apns.payload": "10d", "push.apns.after-end": "push", "push.apns.remote-push-type": "background",
        "push.apns.badge-type": "number", "push.apns.team-id": "a", "push.apns.key-id": "a",
        "push.apns.key-file": "/tmp/a", "push.apns.cert-file": "/tmp/a", "push.apns.cert-key-file": "/tmp/a",
        "push.proxy": "\"http://a:1\"",
        "push.apns.proxy": "\"http://a:1\"", "push.fcm.proxy": "none", "push.webpush.proxy": "none",
        "push.acrobits.proxy": "\"http://u:p@a:1\"",
        "push.apns.endpoint": "http://a", "push.apns.sandbox-endpoint": "http://a", "push.apns.ca-file": "/tmp/a",
        "push.apns.limits.requests": "7", "push.apns.limits.queue": "7", "push.apns.feedback.endpoint": "a.example:7",
        "push.apns.feedback.cert-file": "/tmp/a", "push.apns.feedback.cert-key-file": "/tmp/a",
        "push.apns.feedback.ca-file": "/tmp/a", "push.apns.feedback.interval": "70s",
        "push.apns.apps": "{a: {topics: [b]}}", "push.fcm.enabled": "true", "push.fcm.body-format": "legacy",
        "push.fcm.payload": "10d", "push.fcm.after-end": "push", "push.fcm.params": "[a]",
        "push.fcm.service-account-file": "/tmp/a", "push.fcm.project-id": "a", "push.fcm.server-key": "a",
        "push.fcm.endpoint": "http://a", "push.fcm.token-endpoint": "http://a", "push.fcm.ca-file": "/tmp/a",
        "push.fcm.limits.requests": "7", "push.fcm.limits.queue": "7", "push.fcm.apps": "{a: {params: [b]}}",
        "push.hms.enabled": "true", "push.hms.app-id": "a", "push.hms.client-secret": "a", "push.hms.payload": "10d",
        "push.hms.style": "notification", "push.hms.urgency": "normal", "push.hms.category": "IM",
        "push.hms.after-end": "push", "push.hms.endpoint": "http://a", "push.hms.token-endpoint": "http://a/token",
        "push.hms.ca-file": "/tmp/a", "push.hms.proxy": "none", "push.hms.limits.requests": "7",
        "push.hms.limits.queue": "7", "push.hms.apps": "{a: {app-id: b}}",
        "push.rustore.enabled": "true", "push.rustore.project-id": "a", "push.rustore.service-token": "a",
        "push.rustore.payload": "10d", "push.rustore.after-end": "push", "push.rustore.endpoint": "http://a",
        "push.rustore.ca-file": "/tmp/a", "push.rustore.proxy": "none", "push.rustore.limits.requests": "7",
        "push.rustore.limits.queue": "7", "push.rustore.apps": "{a: {project-id: b}}",
        "push.webpush.enabled": "true", "push.webpush.hosts": "[a.example]", "push.webpush.payload": "10d",
        "push.webpush.any-host": "true", "push.webpush.any-host-ports": "[8443]",
        "push.webpush.private-hosts": "[a.lan]", "push.webpush.host-rate": "7", "push.webpush.host-queue": "7",
        "push.webpush.after-end": "push", "push.webpush.vapid-key-file": "/tmp/a",
        "push.webpush.vapid-contact": "mailto:a@example.org", "push.webpush.ca-file": "/tmp/a",
        "push.webpush.limits.requests": "7", "push.webpush.limits.queue": "7", "push.acrobits.enabled": "true",
        "push.acrobits.endpoint": "http://a", "push.acrobits.after-end": "none", "push.acrobits.ca-file": "/tmp/a",
        "push.acrobits.limits.requests": "7", "push.acrobits.limits.queue": "7", "push.http.enabled": "true",
        "push.http.apps": "{a: {url: \"http://a.example/\"}}", "push.timeline.max-age": "70s",
        "push.timeline.max-records": "7", "push.texts.incoming-call": "a", "push.texts.missed-calls": "a",
        "push.texts.anonymous": "a", "api.listen": "[\"127.0.0.1:7\"]", "api.cert-file": "/tmp/a",
        "api.key-file": "/tmp/a", "api.connections": "7", "api.connections-per-source": "7", "api.head-timeout": "7s",
        "api.body-timeout": "7s", "api.idle-timeout": "7s", "api.dead-token-age": "7d",
        "api.push-tokens.provider": "direct",
        "api.mobile-apps":
            "{a: {id: 00000000-0000-0000-0000-000000000000, org: a, api-token-sha256: [\(String(repeating: "0", count: 64))]}}",
        "api.device-registration.history": "70s", "api.device-registration.webhook-signature": "hex",
        "api.device-registration.webhook-receivers": "[10.1.2.0/24]",
        "api.device-registration.webhook-plain-http": "true", "api.device-registration.webhook-ca-file": "/tmp/a",
        "api.device-registration.webhook-source-address": "192.0.2.20", "api.notifications.enabled": "true",
        "api.notifications.per-device": "7", "api.provisioning.url": "https://a.example",
        "api.provisioning.sip-server": "sip:a.example", "api.provisioning.expires": "7m",
        "api.provisioning.plain-http": "true", "admin.listen": "[\"127.0.0.1:7\"]", "admin.cert-file": "/tmp/a",
        "admin.key-file": "/tmp/a", "admin.names": "[a.example]", "log.level": "debug", "log.format": "json",
        "log.calls": "all", "limits.calls": "7",
        "limits.calls-per-account": "7", "limits.caller-share": "7", "limits.trusted-share": "7",
        "limits.held-bytes": "2000000", "limits.connections": "7", "limits.connections-per-source": "7",
        "limits.registers-per-source": "7", "limits.handshakes-per-source": "7", "limits.first-request": "7s",
        "limits.authentication": "7s", "limits.output-timeout": "7s", "limits.memory": "7", "limits.queueing": "7s",
        "limits.wrong-logins-per-source": "7", "limits.wrong-logins-per-user": "7", "shutdown.drain-time": "7s",
        "hep.collector": "\"udp:192.0.2.30:9060\"", "hep.id": "7", "hep.node": "a", "hep.password-file": "/tmp/a",
        "hep.ca-file": "/tmp/a", "hep.sample": "7", "hep.users": "[a]", "hep.registrations": "false",
        "hep.pushes": "false", "hep.message-bodies": "true",
        "events.url": "\"https://a.example/e\"", "events.secret-files": "[/tmp/a]", "events.types": "[call.held]",
        "events.node": "a", "events.folder": "/tmp/events", "events.max-size": "7", "events.plain-http": "true",
        "events.receivers": "[10.1.2.0/24]", "events.ca-file": "/tmp/a", "events.source-address": "192.0.2.20",
        "otlp.url": "\"http://192.0.2.31:4318\"", "otlp.headers-file": "/tmp/a", "otlp.ca-file": "/tmp/a",
        "otlp.service-name": "a", "otlp.node": "a", "otlp.one-in": "7", "otlp.users": "true", "otlp.queue": "777",
    ]

    /// Returns the keys of the schema, each with the moment at which its changes take effect. All named groups of one
    /// setting count as one key.
    private static func moments(
        of lines: [SettingLine] = DaemonSettings().outline, prefix: String = "", _ moment: ChangeMoment = .atRestart
    ) -> [String: ChangeMoment] {
        var moments: [String: ChangeMoment] = [:]
        for line in lines {
            let own = line.moment ?? moment
            switch line.outline {
            case .group(let inner):
                moments.merge(Self.moments(of: inner, prefix: prefix + line.key + ".", own)) { $1 }
            case .value, .named: moments[prefix + line.key] = own
            }
        }
        return moments
    }

    /// Makes the default settings with one changed key, even if the changed value does not fit the other settings.
    private func settings(_ key: String, _ value: String) throws -> DaemonSettings {
        let words = key.split(separator: ".")
        let yaml = words.map { "{\($0): " }.joined() + value + words.map { _ in "}" }.joined()
        let node = try YAMLNode.read(Array(yaml.utf8), file: "f")
        var problems = SettingsProblems(file: "f")
        return DaemonSettings(reading: node, at: node.position, &problems)
    }

    /// Describes all values that a reload passes to parts of the daemon, and the time limit for the shutdown.
    private func handedOver(_ settings: DaemonSettings) -> [String] {
        var text = ""
        dump(settings.engineSettings(with: settings.push, vapidKey: nil), to: &text)
        dump(settings.flowLimits(descriptors: 1_000_000), to: &text)
        dump(settings.push, to: &text)
        dump(settings.tls, to: &text)
        dump(settings.log.level, to: &text)
        dump(settings.push.triesCredentials, to: &text)
        dump(settings.shutdown, to: &text)
        dump(settings.hep, to: &text)
        dump(settings.admin.names, to: &text)
        dump(settings.otlp, to: &text)
        dump(settings.events, to: &text)
        // The function sorts the lines, because the elements of a set have no order.
        return text.split(separator: "\n").map(String.init).sorted()
    }

    @Test func `there is another value for each key`() {
        #expect(Set(Self.changes.keys) == Set(Self.moments().keys))
    }

    @Test(arguments: changes.sorted { $0.key < $1.key })
    func `a change takes effect at once or is reported, as the schema says`(key: String, value: String) throws {
        let wished = try settings(key, value)
        let before = DaemonSettings()
        var after = before
        let waiting = after.reload(from: wished)
        switch try #require(Self.moments()[key]) {
        case .atOnce:
            #expect(waiting == [])
            #expect(handedOver(after) == handedOver(wished))
            #expect(handedOver(after) != handedOver(before), "no part is told of it")
        case .atRestart:
            #expect(waiting == [key])
            #expect(handedOver(after) == handedOver(before))
        }
        // A second reload reports the same keys, because a change that took effect is not reported again.
        #expect(after.reload(from: wished) == waiting)
    }

    /// If no app was added or removed, a reload applies changed keys and proxies of apps one by one.
    @Test(arguments: [
        (
            "http: {enabled: true, apps: {a: {url: \"https://h/\", secret: one}}}",
            "http: {enabled: true, apps: {a: {url: \"https://h/\", secret: two, proxy: none}}}", [] as [String]
        ),
        (
            "http: {enabled: true, apps: {a: {url: \"https://h/\", secret: one}}}",
            "http: {enabled: true, apps: {a: {url: \"https://g/\", secret: two}}}", ["push.http.apps.a.url"]
        ),
        (
            "fcm: {apps: {b: {params: [c], server-key: d}}}", "fcm: {apps: {b: {params: [e], server-key: f}}}",
            ["push.fcm.apps.b.params"]
        ),
        (
            "fcm: {apps: {b: {params: [c]}}}", "fcm: {apps: {b: {params: [c]}, g: {params: [h]}}}",
            ["push.fcm.apps"]
        ),
    ])
    func `apps are compared one by one`(before: String, after: String, waiting: [String]) throws {
        func settings(_ push: String) throws -> DaemonSettings {
            let node = try YAMLNode.read(Array("{push: {\(push)}}".utf8), file: "f")
            var problems = SettingsProblems(file: "f")
            return DaemonSettings(reading: node, at: node.position, &problems)
        }
        var present = try settings(before)
        let wished = try settings(after)
        #expect(present.reload(from: wished) == waiting)
        #expect(present.push.http.apps["a"]?.secret == wished.push.http.apps["a"]?.secret)
        #expect((present.push == wished.push) == waiting.isEmpty)
    }

    @Test func `the list for the README names groups with their exceptions`() {
        let list = DaemonSettings.keysTakenAtOnce
        #expect(list.hasPrefix("`auth`, `trusted`, "))
        #expect(list.contains(", `log.level`, `log.calls`, `limits` (except `limits.memory`, "))
    }
}
