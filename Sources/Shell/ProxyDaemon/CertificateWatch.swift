import Crypto
import FoundationEssentials
import HTTPServices
import PushDelivery
import Reactor
import Settings
import Telemetry
import Timekeeping

/// Watches the certificates in the settings, and logs which certificates expire soon. The certificates are checked at
/// the start, after a reload, and once a day.
///
/// - The class is `@unchecked Sendable`, because only the daemon's loop uses it.
final class CertificateWatch: @unchecked Sendable {
    private let log: Log
    private let loop: EventLoop
    private var timer: LoopTimer?
    private var files: [String] = []
    /// The time at which the first certificate of each file expires; the dates of authorities' certificates are not
    /// checked.
    private(set) var ends: [(file: String, date: UnixTime)] = []
    /// The time of the next check of the certificates.
    private(set) var next = Instant.distantPast

    private static let interval: Duration = .seconds(86_400)
    /// How long before a certificate's expiry warnings begin. ACME clients renew a certificate a month before its
    /// expiry, so a warning means that the renewal failed.
    static let warningTime: Duration = .seconds(14 * 86_400)

    init(on loop: EventLoop, log: Log) throws(SystemError) {
        self.loop = loop
        self.log = log
        timer = try LoopTimer(on: loop) { [weak self] in self?.dayIsOver() }
    }

    /// The certificates that systemd passed to the service. A renewed certificate needs a restart, because systemd
    /// passes credentials only at the start of the service.
    var credentials: [String] { files.compactMap { Credential.text(of: $0) } }

    /// Watches the certificates in the given settings instead of those in earlier settings.
    func watch(_ settings: DaemonSettings) {
        files = settings.shownCertificates
        look(at: loop.moment)
    }

    private func dayIsOver() { look(at: loop.moment) }

    /// Reads the certificates, logs warnings, and schedules the next check.
    func look(at time: Moment) {
        next = time.instant + Self.interval
        timer?.arm(at: next)
        let now = time.date
        // An unreadable certificate is skipped, because the code that uses its file reports the error.
        ends = files.compactMap { file in
            (try? PEM.file(file).certificateEnds())?.first.map { (file, $0) }
        }
        for (file, end) in ends {
            let fields: KeyValuePairs<LogKey, LogValue> = [
                .path: .text(file), .date: .text(Self.day(end)),
                .count: .number((end.seconds - now.seconds) / 86_400),
            ]
            if end <= now {
                log.error("a certificate has expired", fields)
            } else if end < now + Self.warningTime {
                log.warning("a certificate expires soon", fields)
            }
        }
    }

    private static func day(_ time: UnixTime) -> String {
        Date(timeIntervalSince1970: Double(time.seconds)).formatted(.iso8601.year().month().day())
    }
}

extension DaemonSettings {
    /// The certificate files that the daemon presents to peers, without duplicates.
    fileprivate var shownCertificates: [String] {
        var files = [tls.certFile] + tls.certificates.values.map(\.certFile)
        files += [api.certFile, admin.certFile, cluster.certFile]
        for case .certificate(let file, _) in push.services.filter(\.enabled).flatMap(\.files) { files.append(file) }
        return Set(files.compactMap { $0 }).sorted()
    }
}
