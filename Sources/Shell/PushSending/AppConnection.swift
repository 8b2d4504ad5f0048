import Crypto
import HTTPClient
import PushDelivery
import Settings

extension PEM {
    private static let fileLimit = 4 << 20

    /// The contents of a file; the path of an unreadable file, so that opening the path reports the error.
    static func content(of path: String) -> PEM {
        (try? SettingsFile.bytes(at: path, limit: fileLimit)).map { .bytes($0) } ?? .file(path)
    }
}

/// The parameters of all connections of one app: the contents of certificate files, the proxy, and the secrets that
/// sign requests.
struct AppConnection: Hashable {
    private(set) var authority: PEM?
    private(set) var certificate: PEM?
    private(set) var key: PEM?
    let proxy: HTTPProxy?
    /// The secrets that sign requests: the current secret and, during a change, the old secret.
    let secrets: [[UInt8]]

    /// Reads the certificate files of the push app. For an unusable file, `failed` is called, and the app keeps the
    /// contents from `former`. Without `former`, each attempt to connect reads the files again and reports the error.
    init(
        _ settings: PushConnectionSettings, proxy general: PushProxy?, after former: AppConnection? = nil,
        failed: (TLSError) -> Void = { _ in }
    ) {
        proxy = HTTPProxy(settings.proxy, else: general)
        secrets = settings.secrets.map { Array($0.reveal().utf8) }
        authority = settings.authorityFile.map { .file($0) }
        certificate = settings.certificateFile.map { .file($0) }
        key = settings.keyFile.map { .file($0) }
        do throws(TLSError) {
            // The files are checked before they are read, so that an error names the file.
            try check()
            authority = Self.content(of: authority)
            certificate = Self.content(of: certificate)
            key = Self.content(of: key)
            try check()
        } catch {
            failed(error)
            guard let former else { return }
            authority = former.authority
            certificate = former.certificate
            key = former.key
        }
    }

    private func check() throws(TLSError) {
        guard authority != nil || certificate != nil else { return }
        _ = try TLSContext.client(authority: authority, certificate: certificate, key: key ?? certificate)
    }

    private static func content(of pem: PEM?) -> PEM? {
        guard case .file(let path)? = pem else { return pem }
        return .content(of: path)
    }

    /// Returns the HTTP route of the app's requests. Push apps with equal groups can share HTTP connections.
    func route(group: String) -> HTTPRoute {
        var route = HTTPRoute()
        route.group = group
        route.authority = authority
        route.certificate = certificate
        route.key = key
        route.proxy = proxy
        return route
    }
}
