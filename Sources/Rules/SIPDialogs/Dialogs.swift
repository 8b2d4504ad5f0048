/// The state of dialogs that is not in their dialog tokens.
package struct Dialogs {
    /// The random number of this run of the program. Dialog tokens contain it, because connection numbers are valid
    /// only in one run.
    package let run: UInt32
    /// The renewed dialogs, with their new expiry times.
    package var renewals = DialogRenewals()
    package var provedPlaces = ProvedPlaces()
    package var devices = DialogDevices()

    package init(run: UInt32) { self.run = run }
}
