import Crypto
import FoundationEssentials
package import Timekeeping

/// What `sippushd cert check` says of the certificates that phones are shown.
package struct CertificateCheck {
    /// A line for each certificate.
    package private(set) var lines: [String] = []
    /// What is wrong, a line each.
    package private(set) var problems: [String] = []
    private let date: UnixTime

    /// A certificate that ends sooner should be renewed by now.
    private static let warningTime: Duration = .seconds(14 * 86_400)

    package init(on date: UnixTime) { self.date = date }

    /// Looks at the certificates of the settings, of which each name that phones know us by must have one.
    package mutating func check(_ settings: DaemonSettings, authorities: String?) {
        var names = settings.advertise.map { [Self.host($0)] } ?? []
        names += settings.domains.filter { !names.contains($0) }
        let pairs = settings.tls.files
        guard !pairs.isEmpty else { return problems.append("the settings name no certificate: tls.cert-file") }
        var missing = Set(names)
        for pair in pairs {
            guard let report = report(pair, names, authorities) else { continue }
            missing.formIntersection(report.missingNames)
        }
        for name in names where missing.contains(name) {
            problems.append("\(name): no certificate is for this name, by which phones know us")
        }
    }

    /// Looks at one certificate, which must be for these names.
    package mutating func check(certificate: String, key: String, names: [String], authorities: String?) {
        guard let report = report((certificate, key), names, authorities) else { return }
        for name in report.missingNames { problems.append("\(certificate): it is not for \(name)") }
    }

    private mutating func report(
        _ pair: (certificate: String, key: String), _ names: [String], _ authorities: String?
    ) -> CertificateReport? {
        do throws(TLSError) {
            let identity = TLSIdentity(certificate: .file(pair.certificate), key: .file(pair.key))
            let report = try CertificateReport(identity, for: names, authorities: authorities)
            let days = (report.ends.seconds - date.seconds) / 86_400
            lines.append(
                "\(pair.certificate): for \(report.names.joined(separator: ", ")); until \(Self.day(report.ends)) (\(days) days)"
            )
            if report.begins > date {
                problems.append("\(pair.certificate): it begins on \(Self.day(report.begins)) only")
            }
            if report.ends <= date {
                problems.append("\(pair.certificate): it has ended, on \(Self.day(report.ends))")
            } else if report.ends < date + Self.warningTime {
                problems.append("\(pair.certificate): it ends on \(Self.day(report.ends)), in \(days) days")
            }
            if let fault = report.chainFault {
                problems.append("\(pair.certificate): phones do not trust it: \(fault)")
            }
            return report
        } catch {
            let words = "\(error)"
            let saysWhere = words.contains(pair.certificate) || words.contains(pair.key)
            problems.append(saysWhere ? words : "\(pair.certificate): \(words)")
            return nil
        }
    }

    private static func host(_ text: String) -> String {
        guard let colon = text.lastIndex(of: ":"), !text.hasSuffix("]") else { return text }
        return String(text[..<colon])
    }

    private static func day(_ time: UnixTime) -> String {
        Date(timeIntervalSince1970: Double(time.seconds)).formatted(.iso8601.year().month().day())
    }
}

extension TLSSettings {
    /// Certificate and key of each name.
    fileprivate var files: [(certificate: String, key: String)] {
        let own = certFile.flatMap { file in keyFile.map { (file, $0) } }
        return (own.map { [$0] } ?? [])
            + certificates.sorted { $0.key < $1.key }.map { ($0.value.certFile, $0.value.keyFile) }
    }
}
