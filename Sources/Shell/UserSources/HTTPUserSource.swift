import Bytes
import Crypto
import HTTP1Connections
import HTTPClient
import HTTPSemantics
import JSON
import Reactor
import Registration
import Timekeeping

/// Asks an HTTP server for users.
///
/// - `@unchecked Sendable` because only the loop of the source uses the object.
final class HTTPUserSource: @unchecked Sendable {
    private let loop: EventLoop
    private let http: HTTPSession
    private let url: String
    private let method: UserSourceSettings.Method
    private let secret: [UInt8]?
    private let authority: PEM?

    /// The time limit of one HTTP request. A SIP request waits only two seconds, but a later answer is remembered.
    private static let timeout: Duration = .seconds(8)
    private static let longestAnswer = 16 << 10

    init(
        _ url: String, _ method: UserSourceSettings.Method, secret: [UInt8]?, authority: PEM?, on loop: EventLoop
    ) {
        self.loop = loop
        self.url = url
        self.method = method
        self.secret = secret
        self.authority = authority
        http = HTTPSession(on: loop, over: [HTTP1Transport.self])
    }

    func ask(_ question: UserQuestion, _ done: @escaping (UserAnswer) -> Void) {
        let request: HTTPClientRequest
        do throws(CryptoError) {
            request = try self.request(for: question)
        } catch {
            return done(.away(UserFault("the request cannot be signed", cure: "Check the file of secret-file.")))
        }
        http.send(request) { result in
            switch result {
            case .success(let response): done(Self.answer(response.status, response.body))
            case .failure(let error): done(Self.answer(error))
            }
        }
    }

    func close() { http.close() }

    private func request(for question: UserQuestion) throws(CryptoError) -> HTTPClientRequest {
        let fields = [
            ("user", question.name.string), ("domain", question.domain.string), ("realm", question.realm.string),
        ]
        var request = HTTPClientRequest(method: method.rawValue, url: url)
        request.headers = [HTTPField("Accept", "application/json")]
        switch method {
        case .post:
            request.body = JSONValue.members(fields.map { ($0, .string($1)) }).bytes
            request.headers.append(HTTPField("Content-Type", "application/json"))
        case .get:
            let query = fields.map { "\($0)=\(Self.escaped($1))" }.joined(separator: "&")
            request.url += (url.contains("?") ? "&" : "?") + query
        }
        if let secret {
            let signed = method == .post ? request.body : Array(request.url.utf8)
            let signature = try RequestSignature(for: signed, secrets: [secret], at: loop.moment.date)
            request.headers.append(
                HTTPField("sippushd-signature", String(decoding: signature.text, as: UTF8.self)))
        }
        request.timeout = Self.timeout
        request.responseLimit = Self.longestAnswer
        request.route.version = .http1
        request.route.authority = authority
        return request
    }

    private static func escaped(_ text: String) -> String {
        var out: [UInt8] = []
        for byte in text.utf8 {
            if byte.isNameByte || byte == UInt8(ascii: ".") {
                out.append(byte)
            } else {
                out.append(percentEncoded: byte)
            }
        }
        return String(decoding: out, as: UTF8.self)
    }

    // MARK: The answer

    /// The answer about a user after a failed HTTP request.
    ///
    /// An error that the user's name may have caused is `unusable` and not `away`, so that a stranger with an odd name
    /// cannot stop the source.
    static func answer(_ error: HTTPClientError) -> UserAnswer {
        switch error.code {
        case .bodyTooLarge: .unusable(.tooLong)
        case .badResponse, .reset: .unusable(UserFault(error.sentence, cure: cure))
        case .invalidRequest, .resolve, .connect, .tls, .proxy, .proxyRefused, .timeout, .cancelled, .failed:
            .away(UserFault(error.sentence, cure: cure))
        }
    }

    static func answer(_ status: Int, _ body: [UInt8]) -> UserAnswer {
        switch status {
        case 200: break
        case 404: return .unknown
        case 401, 403, 407:
            return .away(UserFault("the server answers \(status)", cure: "Check secret-file and the server's rules."))
        case 429, 502, 503, 504: return .away(UserFault("the server answers \(status)", cure: cure))
        default: return .unusable(UserFault("the server answers \(status)", cure: cure))
        }
        guard let members = try? JSONValue(body), case .object(let values) = members else {
            return .unusable(
                UserFault(
                    "the server answers 200 without a JSON object",
                    cure: "Check whether url is the address of your service."))
        }
        var secrets = UserSecrets()
        for member in values {
            switch member.value {
            case .string(let text):
                guard text.utf8.count <= UserRows.longestValue else { return .unusable(.tooLong) }
                secrets.set(member.key, ByteString(text))
            case .null, .bool, .number, .array, .object: break
            }
        }
        guard !secrets.ha1.isEmpty || secrets.password != nil else {
            return .unusable(
                UserFault(
                    "the server answers 200 without password, ha1, ha1_sha256 or ha1_sha512_256",
                    cure: "Return one of them as a string, or 404 for an unknown user."))
        }
        return .found(secrets)
    }

    private static let cure = "Check whether the server at url runs, and look at its certificate and log."
}
