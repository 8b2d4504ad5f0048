import Addressing
import Bytes
import Registration
import SIPGrammar
import TestSupport

/// A PBX that registers users by a password, and has one contact of each user.
struct TestPBX {
    /// The REGISTERs that the PBX has received.
    var received: [SIPRequest] = []
    var contacts: [String: String] = [:]
    var grants = 3600
    var answersOptions = true
    var refuses: UInt16?
    var asksPassword = true
    /// The users whose passwords the PBX knows; `nil` if it accepts each password.
    var users: UserDirectory?
    /// Whether the PBX offers SHA-256 besides MD5.
    var offersSHA256 = false
    /// Whether the PBX answers nothing.
    var isAway = false
    private var nonces = 0

    /// The response to a request; `nil` if the PBX sends none.
    mutating func answer(_ request: SIPRequest) -> [UInt8]? {
        guard !isAway else { return nil }
        switch request.method {
        case .options:
            return answersOptions ? SIPText.response(200, to: request, tag: "p") : nil
        case .register:
            received.append(request)
            if let refuses { return SIPText.response(Status(code: refuses), to: request, tag: "p") }
            guard !asksPassword || request.authorization.first != nil else {
                nonces += 1
                let items = "Digest realm=\"example.net\", nonce=\"n\(nonces)\", qop=\"auth\""
                let stronger = offersSHA256 ? ["WWW-Authenticate: \(items), algorithm=SHA-256"] : []
                return SIPText.response(401, to: request, tag: "p", extra: stronger + ["WWW-Authenticate: \(items)"])
            }
            if !isRight(request) { return SIPText.response(403, to: request, tag: "p") }
            let user = request.to.uri.user?.string ?? ""
            if let contact = request.contacts.first {
                contacts[user] = request.expires == 0 ? nil : contact.uri.text.string
            }
            let rows = contacts[user].map { ["Contact: <\($0)>;expires=\(grants)"] } ?? []
            return SIPText.response(200, to: request, tag: "p", extra: rows)
        default: return nil
        }
    }

    /// The user part of the contact that the PBX has stored for the user; empty if there is none.
    func token(of user: String = "bob") -> String {
        contacts[user].map { String($0.dropFirst(4).prefix { $0 != "@" }) } ?? ""
    }

    private func isRight(_ request: SIPRequest) -> Bool {
        guard let users, let credentials = request.authorization.first else { return true }
        guard let user = users.user(named: credentials.username, realm: credentials.realm) else { return false }
        let expected = DigestFunctions.forTests.response(
            to: credentials, .md5, method: .register, ha1: user.ha1[.md5]?.array ?? [])
        return credentials.response.string == String(decoding: expected, as: UTF8.self)
    }
}
