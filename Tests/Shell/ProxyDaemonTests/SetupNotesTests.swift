import ProxyPolicy
import Addressing
import ProxyCore
import PushDelivery
import Reactor
import Testing
import UserSources

@testable import ProxyDaemon

@Suite("Notes of check-config (T35.7)")
struct SetupNotesTests {
    private func notes(_ change: (inout DaemonSettings) -> Void) -> [String] {
        var settings = DaemonSettings()
        settings.push.acrobits.enabled = true
        change(&settings)
        return SetupCheck.notes(of: settings)
    }

    private func app(_ topics: String...) -> APNsSettings {
        var app = APNsSettings()
        app.enabled = true
        app.topics = topics
        return app
    }

    @Test func `there is no note if nothing is unusual`() {
        #expect(
            notes {
                $0.push.apns.enabled = true
                $0.push.apns.topics = ["com.example.phone"]
                $0.push.apns.apps = ["second": app("com.example.second")]
            } == [])
    }

    @Test func `no provider`() {
        #expect(
            notes { $0.push.acrobits.enabled = false } == [
                "push: no provider is enabled, so no phone is woken; see push.apns and push.fcm"
            ])
    }

    @Test func `sources of users without authentication`() {
        #expect(
            notes {
                $0.auth = .off
                $0.users.order = ["pbx"]
            } == ["users: no source is asked, because auth is off"])
    }

    @Test func `tokens are no passwords for a PBX`() {
        func notes(_ domains: [String], hasSource: Bool = false) -> [String] {
            self.notes {
                var group = UpstreamRegistrationSettings()
                group.upstream = NextHop("sip:10.0.0.2")
                $0.registerUpstream = ["example.net": group]
                var issuer = BearerIssuerSettings()
                issuer.domains = domains
                $0.bearer.issuers = ["login": issuer]
                if hasSource {
                    $0.users.order = ["pbx"]
                    $0.users.sources = ["pbx": UserSourceSettings()]
                }
            }.filter { $0.hasPrefix("register-upstream") }
        }
        #expect(notes([]).count == 1)
        #expect(notes(["Example.net"]).count == 1)
        #expect(notes(["example.org"]).isEmpty)
        #expect(notes([], hasSource: true).isEmpty)
    }

    @Test func `an app that no device can match, because it has no topic`() {
        let found = notes {
            $0.push.apns.enabled = true
            $0.push.apns.topics = ["com.example.phone"]
            $0.push.apns.apps = ["second": app()]
        }
        #expect(found == ["push.apns.apps.second: without topics no device belongs to this app"])
    }

    @Test func `a disabled app causes no note`() {
        var off = app()
        off.enabled = false
        #expect(
            notes {
                $0.push.apns.enabled = true
                $0.push.apns.apps = ["second": off]
            } == [])
    }

    @Test func `a topic that two apps have`() {
        let found = notes {
            $0.push.apns.enabled = true
            $0.push.apns.topics = ["com.example.phone"]
            $0.push.apns.apps = ["a": app("com.example.phone"), "b": app("com.example.other")]
        }
        #expect(
            found == [
                "push.apns.apps.a: topics: com.example.phone is in push.apns, too; its devices belong to the last app that names it"
            ])
    }

    @Test func `a topic with the ending of a kind of push`() {
        let found = notes {
            $0.push.apns.enabled = true
            $0.push.apns.topics = ["com.example.phone.voip"]
        }
        #expect(
            found == ["push.apns: topics: com.example.phone.voip: expected the bundle identifier without .voip"])
    }

    @Test func `an app of Google's without params`() {
        let found = notes {
            var app = FCMSettings()
            app.enabled = true
            $0.push.fcm.enabled = true
            $0.push.fcm.params = ["one"]
            $0.push.fcm.apps = ["second": app]
        }
        #expect(found == ["push.fcm.apps.second: without params no device belongs to this app"])
    }

    @Test func `trusted addresses that do not count on a WebSocket`() throws {
        let block = try #require(AddressBlock("192.0.2.7"))
        let found = notes {
            $0.trusted = [.block(block)]
            $0.listen = [ListenAddress(transport: .wss, endpoint: Endpoint(.anyV4, 8443))]
        }
        #expect(found.count == 1)
        #expect(found.first?.hasPrefix("trusted: addresses do not count over WebSocket (wss:0.0.0.0:8443)") == true)
    }

    @Test func `a trusted name that no peer can prove`() throws {
        let withoutTLS = notes {
            $0.trusted = [.name("pbx.example.net")]
            $0.listen = [ListenAddress(transport: .udp, endpoint: Endpoint(.anyV4, 5060))]
        }
        #expect(withoutTLS.count == 1)
        #expect(withoutTLS.first?.hasPrefix("trusted: pbx.example.net is the name in a certificate, which") == true)

        let upstreams = [
            ("sip:pbx.example.net", true), ("sip:pbx.example.net;transport=tls", false),
            ("sips:pbx.example.net", false),
            ("sip:other.example.net", false),
        ]
        for (upstream, isNoted) in upstreams {
            let hop = try #require(NextHop(upstream))
            let found = notes {
                $0.trusted = [.name("pbx.example.net")]
                $0.listen = [
                    ListenAddress(transport: .udp, endpoint: Endpoint(.anyV4, 5060)),
                    ListenAddress(transport: .tls, endpoint: Endpoint(.anyV4, 5061)),
                ]
                $0.upstream = hop
            }
            #expect(found.isEmpty != isNoted, "\(upstream)")
        }
    }
}
