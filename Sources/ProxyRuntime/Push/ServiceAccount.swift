import Crypto
import Foundation
import HTTPClient
import Timekeeping

/// Google's service-account file: signs for access tokens (RFC 7523 JWT bearer grant).
struct ServiceAccount {
    private let email: String
    private let keyID: String
    private let tokenURI: String
    private let key: ProviderKey
    let projectID: String

    /// The token service's answer.
    struct Grant: Decodable {
        let accessToken: String
        let expiresIn: Int64?

        enum CodingKeys: String, CodingKey {
            case accessToken = "access_token"
            case expiresIn = "expires_in"
        }
    }

    private struct File: Decodable {
        let projectID, privateKeyID, privateKey, clientEmail, tokenURI: String

        enum CodingKeys: String, CodingKey {
            case projectID = "project_id"
            case privateKeyID = "private_key_id"
            case privateKey = "private_key"
            case clientEmail = "client_email"
            case tokenURI = "token_uri"
        }
    }

    private struct Claims: Encodable {
        let iss, scope, aud: String
        let iat, exp: Int64
    }

    private static let scope = "https://www.googleapis.com/auth/firebase.messaging"

    init(file path: String) throws(PushSetupError) {
        do {
            let file = try JSONDecoder().decode(File.self, from: Data(contentsOf: URL(fileURLWithPath: path)))
            email = file.clientEmail
            keyID = file.privateKeyID
            tokenURI = file.tokenURI
            projectID = file.projectID
            key = try ProviderKey(.bytes(Array(file.privateKey.utf8)), for: .rs256)
        } catch {
            throw PushSetupError("\(path) is no usable service-account file: \(error)")
        }
    }

    func grantRequest(now: UnixTime, endpoint: String?, authorityFile: String?) throws -> HTTPClientRequest {
        let claims = Claims(
            iss: email, scope: Self.scope, aud: tokenURI, iat: now.seconds, exp: now.seconds + 3600)
        let header = try JSONSerialization.data(withJSONObject: ["alg": "RS256", "typ": "JWT", "kid": keyID])
        let token = try key.token(header: Array(header), claims: Array(JSONEncoder().encode(claims)))
        var body = Array("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=".utf8)
        body += token
        var request = HTTPClientRequest(
            method: "POST", url: endpoint ?? tokenURI,
            headers: [HTTPHeader("content-type", "application/x-www-form-urlencoded")], body: body)
        request.authorityFile = authorityFile
        request.group = "oauth"
        return request
    }
}
