import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import TestSupport

/// Makes users with passwords, and the requests of phones that know these passwords.
enum TestDigest {
    /// Creates the users of one domain. Each password is the user's name spelled backwards.
    static func users(_ names: String..., domain: String = "example.net") -> UserDirectory {
        var users = UserDirectory()
        for name in names {
            users.add(
                DigestUser(
                    name: ByteString(name), realm: ByteString(domain), password: ByteString(String(name.reversed())),
                    algorithms: DigestAlgorithm.allCases, functions: .forTests))
        }
        return users
    }

    /// Makes the request that answers a challenge, with another branch and the next CSeq.
    ///
    /// - Parameters:
    ///   - challenge: the 401 or 407 response.
    ///   - request: the request that was challenged.
    ///   - user: the user whose name is in the answer.
    ///   - password: the password; by default the user's own password.
    ///   - realm: the realm of the challenge that is answered; by default the realm of the first challenge.
    ///   - count: the number of uses of the nonce.
    /// - Returns: the bytes of the new request, or of `request` if the user can answer none of the challenges.
    static func answer(
        _ challenge: SIPResponse, to request: [UInt8], as user: String, password: String? = nil, realm: String? = nil,
        count: Int = 1
    ) -> [UInt8] {
        let text = String(decoding: request, as: UTF8.self)
        let isRegister = challenge.status == .unauthorized
        let rows = challenge.frame.values(of: isRegister ? .wwwAuthenticate : .proxyAuthenticate).map(\.string)
        guard
            let row = rows.first(where: { row in
                row.hasPrefix("Digest") && (realm.map { row.contains("realm=\"\($0)\"") } ?? true)
            })
        else {
            return request
        }
        let algorithm = DigestAlgorithm(rawValue: value("algorithm", row)) ?? .md5
        return next(
            credentials(
                user, password: password, realm: value("realm", row), nonce: value("nonce", row), algorithm,
                count: count, isRegister: isRegister, to: text))
    }

    /// The request with credentials for the nonce. The parameter `count` is `nil` for a client that knows no qop.
    static func credentials(
        _ user: String, password: String? = nil, realm: String = "example.net", nonce: String,
        _ algorithm: DigestAlgorithm = .sha256, count: Int?, isRegister: Bool = true, to text: String
    ) -> [UInt8] {
        let words = text.split(separator: " ", maxSplits: 2)
        let (method, uri) = (String(words[0]), String(words[1]))
        func hash(_ text: String) -> String {
            String(decoding: Hex.encode(DigestFunctions.forTests.hash(algorithm, Array(text.utf8))), as: UTF8.self)
        }
        let ha1 = hash("\(user):\(realm):\(password ?? String(user.reversed()))")
        let digits = String(count ?? 0, radix: 16)
        let nc = String(repeating: "0", count: 8 - digits.count) + digits
        let middle = count == nil ? "" : "\(nc):c:auth:"
        let response = hash("\(ha1):\(nonce):\(middle)" + hash("\(method):\(uri)"))
        let rest = count == nil ? "" : ", qop=auth, nc=\(nc), cnonce=\"c\""
        let row =
            "\(isRegister ? "" : "Proxy-")Authorization: Digest username=\"\(user)\", realm=\"\(realm)\", "
            + "nonce=\"\(nonce)\", uri=\"\(uri)\", response=\"\(response)\", algorithm=\(algorithm.rawValue)\(rest)"
        return Array(text.replacing("Content-Length:", with: "\(row)\r\nContent-Length:").utf8)
    }

    /// The nonce of a challenge.
    static func nonce(of challenge: SIPResponse) -> String {
        value("nonce", challenge.frame.values(of: .wwwAuthenticate).first?.string ?? "")
    }

    /// Builds a copy of the request, with another branch and the next CSeq.
    static func next(_ request: [UInt8]) -> [UInt8] {
        let text = String(decoding: request, as: UTF8.self).replacing("branch=z9hG4bK", with: "branch=z9hG4bKn")
        let parts = text.split(separator: "CSeq: ", maxSplits: 1)
        guard parts.count == 2, let number = Int(parts[1].prefix { $0.isNumber }) else { return request }
        return Array("\(parts[0])CSeq: \(number + 1)\(parts[1].drop { $0.isNumber })".utf8)
    }

    static func value(_ name: String, _ row: String) -> String {
        let rest = row.split(separator: "\(name)=", maxSplits: 1).last ?? ""
        return String(rest.first == "\"" ? rest.dropFirst().prefix { $0 != "\"" } : rest.prefix { $0 != "," })
    }
}

extension EngineBench {
    /// Creates a bench whose users bob and eve have passwords.
    static func authenticating(
        users: UserDirectory = TestDigest.users("bob", "eve", "103"), _ change: (inout ProxySettings) -> Void = { _ in }
    ) -> EngineBench {
        EngineBench(users: users) {
            $0.authenticates = true
            $0.upstream = NextHop("sip:10.0.0.2:5060")
            change(&$0)
        }
    }

    /// Sends a request of a phone, and then the same request with an answer to the challenge.
    @discardableResult
    func receiveProved(
        _ request: [UInt8], as user: String, password: String? = nil, from source: Endpoint = EngineBench.phone
    ) -> [ProxyAction] {
        guard let challenge = sentResponse(receive(request, from: source)) else { return [] }
        return receive(TestDigest.answer(challenge, to: request, as: user, password: password), from: source)
    }

    /// Builds the text of a request from the phone.
    func phoneText(
        _ method: String = "INVITE", to target: String = "sip:200@example.net", from: String = "sip:bob@example.net",
        callID: String = "p1", extra: [String] = []
    ) -> [UInt8] {
        SIPText.bytes(
            [
                "\(method) \(target) SIP/2.0", "Via: SIP/2.0/UDP \(Self.phone);rport;branch=z9hG4bK\(callID)",
                "From: <\(from)>;tag=f\(callID)", "To: <\(target)>", "Call-ID: \(callID)", "CSeq: 1 \(method)",
                "Max-Forwards: 70", "Contact: <sip:bob@\(Self.phone)>", "User-Agent: Phone 1",
            ] + extra)
    }
}
