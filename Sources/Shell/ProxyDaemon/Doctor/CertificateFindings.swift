/// Finds faults of the certificates that phones see, and tells the operator what to do.
package enum CertificateFindings {
    private static let area = "certificates"

    package static func findings(_ check: CertificateCheck) -> [Finding] {
        check.lines.map { Finding(area, .ok, $0) } + check.faults.map(finding)
    }

    private static func finding(_ fault: CertificateCheck.Fault) -> Finding {
        switch fault.kind {
        case .unreadable where fault.isForNodes, .missingName where fault.isForNodes,
            .expired where fault.isForNodes, .untrusted where fault.isForNodes:
            Finding(
                area, .wrong, fault.text,
                cure:
                    "Make a certificate for this node with the cluster's CA: sippushd cluster cert. Then send SIGHUP: systemctl reload sippushd."
            )
        case .expiresSoon where fault.isForNodes:
            Finding(
                area, .note, fault.text,
                cure:
                    "Make a new certificate for this node: sippushd cluster cert. Then send SIGHUP: systemctl reload sippushd."
            )
        case .notSet:
            Finding(
                area, .note, "there is no certificate, so phones connect without TLS",
                cure: "docs/Edge.md has the settings for TLS.")
        case .unreadable:
            Finding(area, .wrong, fault.text, cure: "Write certificate and key in PEM form, as the CA gave them.")
        case .missingName:
            Finding(
                area, .wrong, fault.text,
                cure:
                    "Order a certificate with this name, or add one under tls.certificates. Phones that connect to an outbound proxy whose name is in the certificate need no other name."
            )
        case .notYetValid:
            Finding(area, .wrong, fault.text, cure: "Check this machine's clock: timedatectl.")
        case .expired:
            Finding(
                area, .wrong, fault.text, cure: "Renew the certificate, and send SIGHUP: systemctl reload sippushd.")
        case .expiresSoon:
            Finding(
                area, .note, fault.text,
                cure: "Renew the certificate: does the ACME client still run, and does it reload the daemon?")
        case .untrusted:
            Finding(
                area, .note, fault.text,
                cure:
                    "Add the intermediate certificates to cert-file. If you have a CA of your own, name its certificate: doctor --ca FILE."
            )
        }
    }
}
