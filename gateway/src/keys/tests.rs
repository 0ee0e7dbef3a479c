use super::*;

impl Keys {
    /// Signs tickets and admission tokens with the keys of these seeds, and takes no invitation.
    pub(crate) fn of_seeds(ticket: u8, admission: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ring = |seed: u8| {
            let path = folder.path().join(format!("{seed}.jwk"));
            std::fs::write(&path, SigningKey::from_seed([seed; 32]).to_private_jwk()).unwrap();
            KeyRing::new(vec![(LoadedKey::read(&path, Purpose::Ticket).unwrap(), KeyState::Sign)]).unwrap()
        };
        Self { ticket: ring(ticket), admission: ring(admission), invitation: None }
    }
}

#[test]
fn a_ring_needs_exactly_one_private_key_that_signs() {
    let folder = tempfile::tempdir().unwrap();
    let load = |seed: u8, private: bool| {
        let key = SigningKey::from_seed([seed; 32]);
        let path = folder.path().join("key.jwk");
        std::fs::write(&path, if private { key.to_private_jwk() } else { key.public_key().to_jwk() })
            .unwrap();
        LoadedKey::read(&path, Purpose::Ticket).unwrap()
    };
    use KeyState::{Publish, Sign, Verify};
    let ring = KeyRing::new(vec![(load(1, false), Verify), (load(2, true), Sign), (load(3, true), Publish)])
        .unwrap();
    assert_eq!(ring.signer().kid(), SigningKey::from_seed([2; 32]).kid());
    assert_eq!(ring.set().keys().len(), 3);
    assert!(matches!(KeyRing::new(vec![]), Err(KeyRingError::Signers(0))));
    assert!(matches!(
        KeyRing::new(vec![(load(1, true), Sign), (load(2, true), Sign)]),
        Err(KeyRingError::Signers(2))
    ));
    assert!(matches!(KeyRing::new(vec![(load(1, false), Sign)]), Err(KeyRingError::NotPrivate(_))));
    assert!(matches!(
        KeyRing::new(vec![(load(1, true), Sign), (load(1, true), Verify)]),
        Err(KeyRingError::Set(_))
    ));
}

#[test]
fn a_private_part_that_does_not_fit_is_never_taken_for_a_public_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.jwk");
    let mixed = SigningKey::from_seed([1; 32])
        .to_private_jwk()
        .replace(SigningKey::from_seed([1; 32]).public_key().to_jwk().split('"').nth(7).unwrap_or("-"), "-");
    std::fs::write(&path, mixed).unwrap();
    assert!(LoadedKey::read(&path, Purpose::Ticket).is_err());
}

#[test]
fn a_key_that_says_what_it_is_for_is_taken_for_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.jwk");
    let jwk = SigningKey::from_seed([1; 32]).to_private_jwk();
    let all = [Purpose::Ticket, Purpose::Admission, Purpose::Invitation];
    for made_for in all {
        std::fs::write(&path, made_for.write_into(&jwk).unwrap()).unwrap();
        for used_for in all {
            match LoadedKey::read(&path, used_for) {
                Ok(key) => assert!(made_for == used_for && key.is_private()),
                Err(fault) => {
                    assert_ne!(made_for, used_for, "{fault:?}");
                    assert!(fault.what.contains(made_for.name()) && fault.mend.contains(used_for.name()));
                }
            }
        }
    }
    // One that was made elsewhere says nothing.
    std::fs::write(&path, jwk).unwrap();
    LoadedKey::read(&path, Purpose::Invitation).unwrap();
}
