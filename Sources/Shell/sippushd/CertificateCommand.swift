import ProxyDaemon
import Reactor
import Timekeeping

let certCheckCommand = Command(
    name: "cert check",
    summary:
        "Check the names, chain, dates and key of a certificate. Without the argument CERTIFICATE, this command checks the certificates named in the settings.",
    arguments: "[CERTIFICATE [KEY]]",
    options: [
        Command.configOption,
        Command.Option(
            name: "--name", value: "HOST",
            help: "The host name that phones connect to. Use this option only together with the argument CERTIFICATE."
        ),
        Command.Option(
            name: "--ca", value: "FILE",
            help: "A PEM file with the certificate authorities that phones trust (default: the system's)."),
    ],
    examples: ["cert check", "cert check fullchain.pem privkey.pem --name sip.example.net"]
) { invocation throws(Command.Failure) in
    var check = CertificateCheck(on: SystemClock.moment.date)
    switch invocation.arguments.count {
    case 0: check.check(try invocation.settings(), authorities: invocation.value("--ca"))
    case 1, 2:
        check.check(
            certificate: invocation.arguments[0], key: invocation.arguments.last ?? "",
            names: invocation.value("--name").map { [$0] } ?? [], authorities: invocation.value("--ca"))
    default: throw .usage("expected at most two files: a certificate and its key")
    }
    say(check.lines)
    guard check.problems.isEmpty else { throw .failed(lines: check.problems) }
    say("no problem found")
}
