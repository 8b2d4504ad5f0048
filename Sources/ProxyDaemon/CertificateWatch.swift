import Crypto
import Foundation
import HTTPServices
import PushDelivery
import Reactor
import Telemetry
import Timekeeping

/// Knows when the certificates end that the settings name, and says so in the log before they do: at the start, when the settings
/// are read again, and once a day.
///
/// - `@unchecked Sendable` because it lives on the daemon's loop and is used there alone.
final class CertificateWatch: @unchecked Sendable {
    private let log: Log
    private let loop: EventLoop
    private var timer: LoopTimer?
    private var files: [String] = []
    /// When the first certificate of each file ends; the others of a chain are its authorities.
    private(set) var ends: [(file: String, date: UnixTime)] = []
    /// When it looks next.
    private(set) var next = Instant.distantPast

    private static let interval: Duration = .seconds(86_400)
    /// Whoever renews by ACME renews a month before the end.
    static let warningTime: Duration = .seconds(14 * 86_400)

    init(on loop: EventLoop, log: Log) throws(SystemError) {
        self.loop = loop
        self.log = log
        timer = try LoopTimer(on: loop) { [weak self] in self?.dayIsOver() }
    }

    /// Begins to watch those of the settings, in place of those before.
    func watch(_ settings: DaemonSettings) {
        files = settings.shownCertificates
        look(at: loop.moment)
    }

    private func dayIsOver() { look(at: loop.moment) }

    /// Reads them, says what is to be said, and plans the next look.
    func look(at time: Moment) {
        next = time.instant + Self.interval
        timer?.arm(at: next)
        let now = time.date
        // One that cannot be read is told of by whoever uses it.
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
    /// The files of certificates that we show, each once.
    fileprivate var shownCertificates: [String] {
        var files = [tls.certFile] + tls.certificates.values.map(\.certFile) + [api.certFile, admin.certFile]
        for case .certificate(let file, _) in push.services.filter(\.enabled).flatMap(\.files) { files.append(file) }
        return Set(files.compactMap { $0 }).sorted()
    }
}
