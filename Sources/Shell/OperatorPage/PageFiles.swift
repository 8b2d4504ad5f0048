internal import CPage
import Crypto
package import HTTPSemantics
import HTTPServer
package import HTTPServices

/// Serves the files of the operators' web page, which are part of the program. The files contain no data of the daemon,
/// so they need no session.
package struct PageFiles {
    private let gate: PageGate

    package init(behind gate: PageGate) { self.gate = gate }

    package func register(in router: inout ServiceRouter) {
        for number in 0..<cpage_count() {
            let file = File(number)
            router.add("GET", file.path, scope: nil, domains: .open, described: .leftOut) {
                [gate] call throws(ServiceProblem) in
                if let problem = gate.refusalOfHost(call.request) {
                    let text = "\(problem.title): \(problem.detail ?? "")"
                    return call.answer(HTTPResponse(status: 403, text: text).adding(Self.fields))
                }
                let isKnown = call.request.field("if-none-match")?.contains(file.tag) == true
                guard !isKnown else { return call.answer(HTTPResponse(status: 304, fields: file.fields)) }
                var response = HTTPResponse(type: file.type, body: file.bytes)
                response.fields += file.fields
                call.answer(response)
            }
        }
    }

    /// The header fields allow only files of this server, without scripts or styles inside the document. Other web
    /// sites can neither frame the page nor open it with access to its window.
    package static let fields = [
        HTTPField(
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        ),
        HTTPField("X-Content-Type-Options", "nosniff"), HTTPField("X-Frame-Options", "DENY"),
        HTTPField("Referrer-Policy", "no-referrer"), HTTPField("Cross-Origin-Opener-Policy", "same-origin"),
        HTTPField("Cross-Origin-Resource-Policy", "same-origin"), HTTPField("Cache-Control", "no-cache"),
    ]

    /// One file of the operators' page.
    private struct File: Sendable {
        let number: Int
        let path: String
        let type: String
        /// The value of `ETag`, by which a browser asks whether its copy is up to date.
        let tag: String

        init(_ number: Int) {
            self.number = number
            let file = unsafe cpage_file_at(number)
            path = unsafe String(cString: file.path)
            type = unsafe String(cString: file.type)
            let hash = HashAlgorithm.sha256.hexDigest(of: Self.bytes(of: number))
            tag = "\"\(String(decoding: hash.prefix(32), as: UTF8.self))\""
        }

        var fields: [HTTPField] { PageFiles.fields + [HTTPField("ETag", tag)] }

        /// A copy of the file's bytes for one answer.
        var bytes: [UInt8] { Self.bytes(of: number) }

        private static func bytes(of number: Int) -> [UInt8] {
            let file = unsafe cpage_file_at(number)
            return unsafe [UInt8](UnsafeBufferPointer(start: file.bytes, count: file.count))
        }
    }
}

extension HTTPResponse {
    fileprivate func adding(_ fields: [HTTPField]) -> HTTPResponse {
        var copy = self
        copy.fields += fields
        return copy
    }
}
