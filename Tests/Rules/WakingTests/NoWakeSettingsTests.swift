import ProxyPolicy
@testable import Waking
import Bytes
import Registration
import Settings
import SIPGrammar
import Testing

@Suite("Settings of calls for which nobody wakes")
struct NoWakeSettingsTests {
    private func settings(_ yaml: String) throws -> NoWakeSettings {
        try NoWakeSettings(yaml: Array(yaml.utf8), file: "x")
    }

    private func aor(_ user: String, _ host: String = "example.net") -> AddressOfRecord {
        AddressOfRecord(user: ByteString(user), host: ByteString(host))
    }

    @Test func `the entry of a user comes before that of a domain, and that before the common ones`() throws {
        let settings = try settings(
            """
            status: 486
            for:
              example.org: {status: 604}
              bob@example.net: {action: redirect, to: "sip:box@pbx.example.net"}
            """)
        #expect(settings.settings(for: aor("eve")).status == 486)
        #expect(settings.settings(for: aor("eve", "example.org")).status == 604)
        let bob = settings.settings(for: aor("bob"))
        #expect(bob.action == .redirect && bob.status == 486)
        #expect(settings.settings(for: aor("Bob")).action == .answer)
        #expect(!settings.forwards && !settings.learns)
    }

    @Test(arguments: [
        "status: 200", "status: 302", "status: 481", "status: 99999", "status: busy", "action: drop", "action: forward",
        "action: redirect", "for: {bob@example.net: {action: forward}}",
        // Targets that the settings refuse, because a user's name must not decide where the URI leads.
        "to: \"sip:{{user}}\"", "to: \"sip:vm@{{user}}\"", "to: \"sip:vm@pbx;user={{user}}\"",
        "to: \"sip:{{user}}{{user}}@pbx\"", "to: \"{{user}}:vm@pbx\"", "to: \"sip:a@b@c\"", "to: tel:123",
        "to: \"http://pbx\"", "to: \"sip:vm@pbx?Route=%3Csip:x%3E\"", "to: \"<sip:vm@pbx>\"",
        "to: \"sip:vm@pbx\\nX: y\"",
        "to: \"sip:vm:secret@pbx\"", "to: \"sip:vm@\"", "to: \"\"",
    ])
    func `contradictions are refused`(yaml: String) {
        #expect(throws: SettingsError.self) { try settings(yaml) }
    }

    @Test(arguments: [
        ("sip:vm-{{user}}@pbx.example.net", "bob", "sip:vm-bob@pbx.example.net"),
        ("sip:{{user}}@192.0.2.10:5080;transport=tcp", "bob", "sip:bob@192.0.2.10:5080;transport=tcp"),
        ("sips:*98@[2001:db8::1]", "bob", "sips:*98@[2001:db8::1]"),
        ("sip:pbx.example.net", "bob", "sip:pbx.example.net"),
        // A user's name can become only the user part of the target URI.
        ("sip:vm-{{user}}@pbx", "a@evil.example", "sip:vm-a%40evil.example@pbx"),
        ("sip:vm-{{user}}@pbx", "a;x=y?h=v:p", "sip:vm-a%3Bx%3Dy%3Fh%3Dv%3Ap@pbx"),
        ("sip:vm-{{user}}@pbx", "a\r\nX: y", "sip:vm-a%0D%0AX%3A%20y@pbx"),
        ("sip:vm-{{user}}@pbx", "{{user}}", "sip:vm-%7B%7Buser%7D%7D@pbx"),
        ("sip:vm-{{user}}@pbx", "+49(30)1.2", "sip:vm-+49(30)1.2@pbx"),
    ])
    func `the called user fills the place, escaped`(text: String, user: String, uri: String) throws {
        let target = try #require(NoWakeTarget(text))
        #expect(target.description == text)
        #expect(target.uri(for: ByteString(user)) == ByteString(uri))
        let read = try #require(SIPURI(target.uri(for: ByteString(user))))
        #expect(read.host == SIPURI(ByteString(text.replacing("{{user}}", with: "u")))?.host)
    }

    @Test func `what a call gets depends on who calls and where it can go`() throws {
        typealias Circumstances = NoWakePlan.Circumstances
        let trusted = Circumstances(isTrusted: true, hasUpstream: true, wasDiverted: false)
        let phone = Circumstances(isTrusted: false, hasUpstream: true, wasDiverted: false)
        let alone = Circumstances(isTrusted: true, hasUpstream: false, wasDiverted: false)
        let diverted = Circumstances(isTrusted: true, hasUpstream: true, wasDiverted: true)
        func plan(_ yaml: String, _ circumstances: Circumstances) throws -> NoWakePlan {
            NoWakePlan(try settings(yaml), for: aor("bob"), circumstances)
        }
        #expect(try plan("", trusted) == .answer(480))
        #expect(try plan("status: 603", phone) == .answer(603))
        let redirect = "{action: redirect, status: 404, to: \"sip:vm-{{user}}@pbx\"}"
        let uri = ByteString("sip:vm-bob@pbx")
        #expect(try plan(redirect, trusted) == .redirect(uri))
        #expect(try plan(redirect, trusted).fields.map(\.value) == [ByteString("<sip:vm-bob@pbx>")])
        #expect(try plan(redirect, alone) == .redirect(uri))
        // Calls from phones are not redirected, because a phone would send its password to the server that the URI
        // names.
        #expect(try plan(redirect, phone) == .answer(404))
        let forward = "{action: forward, status: 486, to: \"sip:vm-{{user}}@pbx\"}"
        #expect(try plan(forward, trusted) == .forward(uri, orElse: 486))
        #expect(try plan(forward, trusted).status == 486)
        for other in [phone, alone, diverted] { #expect(try plan(forward, other) == .answer(486)) }
        #expect(try plan(redirect, diverted) == .answer(404))
    }
}
